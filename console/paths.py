"""Where gpudeck keeps its files; every file that it writes is readable by its owner only."""

import os
from pathlib import Path

import platformdirs


def config_file() -> Path:
    """Return the config file: GPUDECK_CONFIG, or `config.toml` in the user's config folder."""
    named = os.environ.get("GPUDECK_CONFIG")
    return Path(named).expanduser() if named else platformdirs.user_config_path("gpudeck") / "config.toml"


def state_folder(name: str = "") -> Path:
    """Return a folder below the user's state folder (GPUDECK_STATE wins), made with mode 0700 if it is absent."""
    named = os.environ.get("GPUDECK_STATE")
    base = Path(named).expanduser() if named else platformdirs.user_state_path("gpudeck")
    folder = base / name if name else base
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def write_private(path: Path, data: bytes) -> None:
    """Replace a file in one step; it is mode 0600 from the start and never half written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
