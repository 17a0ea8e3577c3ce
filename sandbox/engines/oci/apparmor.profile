# What containers may do at most, whatever else lets them. The server loads it where AppArmor is on.
profile gdal-mcp-sandbox flags=(attach_disconnected,mediate_deleted) {
  # which files there are is decided by the mounts
  file,
  deny /sys/** wklmx,
  deny /proc/sys/** wkl,
  deny /proc/sysrq-trigger rwklx,
  deny /proc/kcore rwklx,
  deny /proc/{mem,kmem} rwklx,

  # a job makes local sockets, among its own processes
  network unix,
  unix,
  deny network inet,
  deny network inet6,
  deny network netlink,
  deny network packet,
  deny network raw,

  deny capability,
  deny mount,
  deny remount,
  deny umount,
  deny pivot_root,

  ptrace (trace,read,tracedby,readby) peer=gdal-mcp-sandbox,
  signal (send,receive) peer=gdal-mcp-sandbox,
  signal (receive) peer=unconfined,
}
