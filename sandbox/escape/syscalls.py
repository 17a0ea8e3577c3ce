"""Numbers of the system calls that no job may make, from the kernel's `unistd.h`. They never change. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_X86_64: Final = """
accept=43 accept4=288 acct=163 add_key=248 adjtimex=159 bind=49 bpf=321 cachestat=451 capget=125
capset=126 chown=92 chroot=161 clock_adjtime=305 clock_settime=227 clone3=435 connect=42
delete_module=176 epoll_pwait2=441 execveat=322 fallocate=285 fanotify_init=300 fanotify_mark=301
fchown=93 fchownat=260 fgetxattr=193 finit_module=313 flistxattr=196 fremovexattr=199 fsconfig=431
fsetxattr=190 fsmount=432 fsopen=430 fspick=433 futex_waitv=449 get_mempolicy=239
get_robust_list=274 getxattr=191 init_module=175 inotify_add_watch=254 inotify_init1=294
io_cancel=210 io_destroy=207 io_getevents=208 io_setup=206 io_submit=209 io_uring_enter=426
io_uring_register=427 io_uring_setup=425 ioperm=173 iopl=172 ioprio_set=251 kcmp=312
kexec_file_load=320 kexec_load=246 keyctl=250
lchown=94 lgetxattr=192 link=86 listen=50 listmount=458 listxattr=194
llistxattr=195 lookup_dcookie=212 lremovexattr=198 lsetxattr=189 map_shadow_stack=453 mbind=237
memfd_create=319 memfd_secret=447 migrate_pages=256 mincore=27 mknod=133 mknodat=259 mlock=149
mlock2=325 mlockall=151 modify_ldt=154 mount=165 mount_setattr=442 move_mount=429 move_pages=279
mq_open=240 mq_unlink=241 msgctl=71 msgget=68 msgrcv=70 msgsnd=69 name_to_handle_at=303
open_by_handle_at=304 open_tree=428 perf_event_open=298 personality=135 pidfd_getfd=438
pidfd_open=434 pidfd_send_signal=424 pivot_root=155 process_madvise=440 process_mrelease=448
process_vm_readv=310 process_vm_writev=311 ptrace=101 quotactl=179 reboot=169 recvmmsg=299
recvmsg=47 remap_file_pages=216 removexattr=197 request_key=249 rt_sigqueueinfo=129
rt_tgsigqueueinfo=297 sched_setaffinity=203 sched_setattr=314 sched_setparam=142
sched_setscheduler=144 seccomp=317 semctl=66 semget=64 semop=65 sendfile=40 sendmmsg=307 sendmsg=46
set_mempolicy=238 setdomainname=171 setfsgid=123 setfsuid=122 setgid=106 setgroups=116
sethostname=170 setns=308 setpriority=141 setregid=114 setresgid=119 setresuid=117 setreuid=113
setsockopt=54 settimeofday=164 setuid=105 setxattr=188 shmat=30 shmctl=31 shmget=29 splice=275
statmount=457 swapoff=168 swapon=167 symlink=88 symlinkat=266 sync=162 syncfs=306 syslog=103 tee=276
timer_create=222 timerfd_create=283 umount2=166 unshare=272 userfaultfd=323 vhangup=153 vmsplice=278
"""
_AARCH64: Final = """
accept=202 accept4=242 acct=89 add_key=217 adjtimex=171 bind=200 bpf=280 cachestat=451 capget=90
capset=91 chroot=51 clock_adjtime=266 clock_settime=112 clone3=435 connect=203 delete_module=106
epoll_pwait2=441 execveat=281 fallocate=47 fanotify_init=262 fanotify_mark=263 fchown=55 fchownat=54
fgetxattr=10 finit_module=273 flistxattr=13 fremovexattr=16 fsconfig=431 fsetxattr=7 fsmount=432
fsopen=430 fspick=433 futex_waitv=449 get_mempolicy=236 get_robust_list=100 getxattr=8
init_module=105 inotify_add_watch=27 inotify_init1=26 io_cancel=3 io_destroy=1 io_getevents=4
io_setup=0 io_submit=2 io_uring_enter=426 io_uring_register=427 io_uring_setup=425 ioprio_set=30
kcmp=272 kexec_file_load=294 kexec_load=104 keyctl=219
lgetxattr=9 listen=201 listmount=458
listxattr=11 llistxattr=12 lookup_dcookie=18 lremovexattr=15 lsetxattr=6 map_shadow_stack=453
mbind=235 memfd_create=279 memfd_secret=447 migrate_pages=238 mincore=232 mknodat=33 mlock=228
mlock2=284 mlockall=230 mount=40 mount_setattr=442 move_mount=429 move_pages=239 mq_open=180
mq_unlink=181 msgctl=187 msgget=186 msgrcv=188 msgsnd=189 name_to_handle_at=264
open_by_handle_at=265 open_tree=428 perf_event_open=241 personality=92 pidfd_getfd=438
pidfd_open=434 pidfd_send_signal=424 pivot_root=41 process_madvise=440 process_mrelease=448
process_vm_readv=270 process_vm_writev=271 ptrace=117 quotactl=60 reboot=142 recvmmsg=243
recvmsg=212 remap_file_pages=234 removexattr=14 request_key=218 rt_sigqueueinfo=138
rt_tgsigqueueinfo=240 sched_setaffinity=122 sched_setattr=274 sched_setparam=118
sched_setscheduler=119 seccomp=277 semctl=191 semget=190 semop=193 sendfile=71 sendmmsg=269
sendmsg=211 set_mempolicy=237 setdomainname=162 setfsgid=152 setfsuid=151 setgid=144 setgroups=159
sethostname=161 setns=268 setpriority=140 setregid=143 setresgid=149 setresuid=147 setreuid=145
setsockopt=208 settimeofday=170 setuid=146 setxattr=5 shmat=196 shmctl=195 shmget=194 splice=76
statmount=457 swapoff=225 swapon=224 symlinkat=36 sync=81 syncfs=267 syslog=116 tee=77
timer_create=107 timerfd_create=85 umount2=39 unshare=97 userfaultfd=282 vhangup=58 vmsplice=75
"""


def _table(text: str) -> Mapping[str, int]:
    entries = (entry.split("=") for entry in text.split())
    return MappingProxyType({name: int(number) for name, number in entries})


# numbers by the engine's name for the architecture
NUMBERS: Final = MappingProxyType(
    {
        **dict.fromkeys(("x86_64", "amd64"), _table(_X86_64)),
        **dict.fromkeys(("aarch64", "arm64"), _table(_AARCH64)),
    }
)
