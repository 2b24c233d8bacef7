"""What root may ask of hostd on its control socket."""
