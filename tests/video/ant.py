"""A study of an ant that is small enough to be trained and filmed in tests."""

SMALL = (
    "--environments 4 --rollout 4 --minibatches 2 --epochs 1 --iterations-per-task 1 "
    "--iterations-per-chunk 1 --tasks 1 --policy-hidden 8 --value-hidden 8 --no-diagnostics "
    "--episode-length 15 --seeds 2 --quiet"
)
STEPS = 40
FRICTIONS = 0.02, 2.0
