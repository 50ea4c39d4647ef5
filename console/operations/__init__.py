"""Propose, resolve, forecast, confirm, apply, verify, audit, undo: the only way in which gpudeck changes anything."""
