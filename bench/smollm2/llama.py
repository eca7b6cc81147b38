# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What bench.py compares with: the same tokens through llama.cpp, by llama-cpp-python. Prints what they took, as JSON.

    python llama.py MODEL.gguf --threads N --flash-attn on|off --prefill N < token ids

Like the native executable: a prompt of the first --prefill tokens, then the rest one by one, after a shorter run that
does not count.
"""

import argparse
import json
import sys
import time

import llama_cpp

WARM_UP = 128, 8  # tokens of the prompt, and after it


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--flash-attn", choices=("on", "off"), required=True)
    parser.add_argument("--prefill", type=int, required=True)
    options = parser.parse_args()
    ids = [int(word) for word in sys.stdin.read().split()]

    llama = llama_cpp.Llama(
        options.model,
        n_ctx=-(-len(ids) // 256) * 256,
        n_batch=512,
        n_ubatch=512,
        n_threads=options.threads,
        n_threads_batch=options.threads,
        flash_attn=options.flash_attn == "on",
        use_mmap=True,
        verbose=False,
    )

    def take(prompt: list[int], rest: list[int]) -> dict:
        """Asks for logits of the last token of the prompt, and of each of the rest."""
        llama.reset()
        times = [time.perf_counter_ns()]
        llama.eval(prompt)
        times.append(time.perf_counter_ns())
        for token in rest:
            llama.eval([token])
        times.append(time.perf_counter_ns())
        return {
            "prefill": {"tokens": len(prompt), "ns": times[1] - times[0]},
            "decode": {"tokens": len(rest), "ns": times[2] - times[1]},
        }

    take(ids[: min(options.prefill, WARM_UP[0])], ids[-WARM_UP[1] :])
    measured = take(ids[: options.prefill], ids[options.prefill :])
    print(
        json.dumps(
            {
                "version": llama_cpp.__version__,
                "system": llama_cpp.llama_print_system_info().decode().strip(" |"),
                **measured,
            }
        )
    )


if __name__ == "__main__":
    main()
