"""The scheduling core: policies, simulator, what-if. Pure: it knows no screen, no network and no clock."""
