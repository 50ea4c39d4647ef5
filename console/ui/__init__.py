"""The screens: they show what the engine sends and ask it for changes; they know no connector."""
