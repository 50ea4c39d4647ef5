"""Simulated clusters for trying gpudeck out: no network, nothing to break."""

from console.demo.connector import DemoConnector

__all__ = ["DemoConnector"]
