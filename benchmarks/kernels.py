"""What a GPU would be asked to do: the kernels of a training program and the bytes that they move.

The program is compiled for an H200, which need not be there: only JAX's plugin for CUDA must be
installed (`pip install "jax[cuda12]"`). Loops and branches are listed by themselves, each with its
kernels, those that move most first. Copies stand out so: of a state that passes through a branch,
or of a result that lies otherwise than its reader wants it.

    JAX_PLATFORMS=cpu python benchmarks/kernels.py --method cpr --seeds 5

Nothing is timed, and which of several kernels is fastest cannot be tried: shapes of blocks, and
whether a product is cuBLAS's, may differ on the device.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

import jax
from jax.experimental import topologies
from programs import keys

from continual_learning.agents.common.trainer import Trainer
from continual_learning.studies import build, registry

H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 140000000000 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 } registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 3 } runtime_version { major: 12 minor: 9 }
device_description_str: "NVIDIA H200"
"""
BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4}
LEAST = 4  # kernels of a part that is shown
FREE = {"parameter", "get-tuple-element", "tuple", "constant", "bitcast"}
COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*?\) -> .*? \{\n(.*?)^\}", re.S | re.M)
INSTRUCTION = re.compile(r"\s*(?:ROOT )?%([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)")


class Kernel(NamedTuple):
    """One instruction that is carried out.

    Attributes:
      kind: "fusion", "copy", "while" …
      bytes: of what it reads and writes. Of a large array that is read in part it is too much, and
        of a loop or branch it is what passes through.
      shape: of what it writes.
      source: the operations of the program that it comes from.
    """

    kind: str
    bytes: int
    shape: str
    source: str


def hlo(trainer: Trainer, seeds: int) -> str:
    """Return the compiled chunk of so many seeds, as text."""
    try:
        topology = topologies.get_topology_desc(
            "h200", "cuda", topology="1x1x1", target_config=H200
        )
    except NotImplementedError as error:
        raise SystemExit(
            "JAX's plugin for CUDA is not installed, or failed for want of a GPU: "
            'pip install "jax[cuda12]", and set JAX_PLATFORMS=cpu.'
        ) from error
    there = jax.sharding.SingleDeviceSharding(topology.devices[0])

    def arguments(make, *args):
        like = jax.eval_shape(make, *args)
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=there), like)

    data = trainer.data
    state = arguments(jax.vmap(lambda key: trainer.init(key, {}, data)), keys(seeds))
    chunk = jax.vmap(lambda state, data: trainer.chunk(state, {}, data), (0, None))
    traced = jax.jit(chunk, donate_argnums=0).trace(state, arguments(lambda: data))
    lowered = traced.lower(lowering_platforms=("cuda",))
    return lowered.compile(compiler_options=dict(trainer.options)).as_text()


def size(shape: str) -> int:
    """Bytes of all arrays of a shape."""
    total = 0
    for dtype, axes in re.findall(r"(\w+)\[([\d,]*)\]", shape):
        count = 1
        for axis in filter(None, axes.split(",")):
            count *= int(axis)
        total += BYTES.get(dtype, 8) * count
    return total


def computations(text: str) -> Iterator[tuple[str, list[Kernel]]]:
    """Loops, branches and the whole, with their kernels; what is within one kernel is left out."""
    within = set(re.findall(r"calls=%([\w.\-]+)", text))
    for name, body in COMPUTATION.findall(text):
        if name in within:
            continue
        shapes, kernels = {}, []
        for line in body.splitlines():
            if not (found := INSTRUCTION.match(line)):
                continue
            instruction, shape, kind, rest = found.groups()
            shapes[instruction] = shape
            if kind in FREE:
                continue
            read = re.findall(r"%([\w.\-]+)", rest.split("), ")[0])
            moved = size(shape) + sum(size(shapes.get(each, "")) for each in read)
            source = re.search(r'op_name="([^"]*)"', rest)
            plain = re.sub(r"\{[^}]*\}", "", shape)
            origin = source[1] if source else ""
            kernels.append(Kernel(kind, moved, plain, origin))
        yield name, kernels


def main() -> None:
    """Print a part per loop and branch."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experiment", default="continual_minatar")
    parser.add_argument("--method", default="adam")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--most", type=int, default=12, help="kernels shown of each part")
    args = parser.parse_args()
    experiment = registry.get(args.experiment)
    trainer = build.trainer(experiment, args.method, build.data(experiment))
    # Some programs are made differently for a CPU.
    with mock.patch.object(jax, "default_backend", lambda: "gpu"):
        text = hlo(trainer, args.seeds)
    for name, kernels in computations(text):
        if len(kernels) < LEAST:
            continue
        copied = sum(kernel.bytes for kernel in kernels if kernel.kind == "copy")
        total = sum(kernel.bytes for kernel in kernels)
        print(f"{name}: {len(kernels)} kernels, {total / 1e6:.1f} MB, copies {copied / 1e6:.1f} MB")
        for kernel in sorted(kernels, key=lambda kernel: -kernel.bytes)[: args.most]:
            shown = f"{kernel.kind:12} {kernel.shape[:48]:48} {kernel.source[-64:]}"
            print(f"  {kernel.bytes / 1e6:9.2f} MB {shown}")


if __name__ == "__main__":
    main()
