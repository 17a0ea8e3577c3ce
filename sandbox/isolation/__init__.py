"""The isolation policy of every container, the seccomp profile, the measurements, and the rules that judge them."""
