"""What `hostctl doctor` examines, and how it says what it found."""
