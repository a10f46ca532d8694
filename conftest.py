"""The plugin is found through its entry point; pytester serves the plugin's own tests."""

pytest_plugins = ["pytester"]
