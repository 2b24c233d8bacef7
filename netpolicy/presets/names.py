"""What `preset.use` may list. A daemon that reads a policy needs the names, not the readers."""

PRESETS = ("pip", "npm", "cargo", "go", "maven", "gem")
# Read in the policies of before, and not resolved: they install as root, which no sandbox can.
GONE = ("apt", "apk")
