from examples import traced_features


def test_both_methods_reset_units_of_every_layer(capsys):
    resets = traced_features.main(steps=20)
    assert set(resets) == {"CBP", "ReDo"}
    for layers in resets.values():
        assert list(layers) == ["params/Conv_0/kernel", "params/Dense_0/kernel"]
        assert min(layers.values()) > 0
    assert "of the units dormant" in capsys.readouterr().out
