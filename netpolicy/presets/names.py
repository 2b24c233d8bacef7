"""What `preset.use` may list. A daemon that reads a policy needs the names, not the readers."""

PRESETS = ("pip", "npm", "apt", "cargo", "go", "maven", "gem", "apk")
