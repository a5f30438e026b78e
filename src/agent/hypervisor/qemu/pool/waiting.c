/*
 * Preloaded into a QEMU that waits for its VM: libraries are loaded and relocated, and what is left to do is its main.
 * The agent, at whose socket MOTE_WAITS_AT (in the working directory) it calls when it is that far, then says once what
 * the VM is:
 *   u32 length, u32 arguments, u32 variables, u32 what the tap is open as,
 *   working directory, file for its errors, tap (each ends with a zero byte; empty tap: none), arguments, variables (likewise).
 * It answers with an i32: 0 and it goes on as if it had been started so, or errno and it ends. It ends as well when the
 * agent does. With MOTE_WAITS_APART it is in a network namespace of its own in which there is nothing (netless.c).
 * Numbers are in the byte order of the machine.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_MESSAGE = 1 << 20, FIRST_FD = 64 };

#define SKIP_4 " %*s %*s %*s %*s"
#define SKIP_16 SKIP_4 SKIP_4 SKIP_4 SKIP_4
#define SKIP_22 SKIP_16 SKIP_4 " %*s %*s"

typedef int program(int argc, char **argv, char **envp);

static program *qemu;
static char message[MAX_MESSAGE];
/* Of the host's network: what opens its taps, and what finds them. */
static int tun = -1, host = -1;

/* Where no number is that the VM's arguments may name. */
static int aside(int fd) {
  int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
  if (moved < 0) _exit(errno);
  close(fd);
  return moved;
}

static int call_agent(const char *name) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  if (strlen(name) >= sizeof at.sun_path) _exit(ENAMETOOLONG);
  strcpy(at.sun_path, name);
  int agent = aside(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(agent, (struct sockaddr *)&at, sizeof at) < 0) _exit(errno);
  return agent;
}

static void leave_host(void) {
  tun = aside(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  host = aside(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (unshare(CLONE_NEWNET) < 0) _exit(errno);
}

static void hear(int agent, void *data, size_t size) {
  for (char *at = data; size > 0;) {
    ssize_t n = read(agent, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(0); /* there is no agent any more */
    at += n, size -= (size_t)n;
  }
}

/* 0, or errno. A tap that does not exist would be made, and nothing would filter it. */
static int open_tap(const char *name, int wanted) {
  struct ifreq found = {0}, request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
  if (strlen(name) >= IFNAMSIZ) return ENAMETOOLONG;
  strcpy(found.ifr_name, name), strcpy(request.ifr_name, name);
  if (ioctl(host, SIOCGIFINDEX, &found) < 0 || ioctl(tun, TUNSETIFF, &request) < 0) return errno;
  return dup2(tun, wanted) < 0 ? errno : 0;
}

static int open_errors(const char *file) {
  int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0) return errno;
  return close(fd), 0;
}

/* Where the kernel takes this process's parts to be (proc_pid_stat(5)); 0, or less where it does not say. */
static int parts_of_self(struct prctl_mm_map *map) {
  static char stat[4096];
  unsigned long long code[2], stack, data[2], heap;
  int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  ssize_t size = fd < 0 ? -1 : read(fd, stat, sizeof stat - 1);
  char *name_end = size < 0 ? NULL : strrchr(stat, ')');
  close(fd);
  if (!name_end || sscanf(name_end + 2, "%*c" SKIP_22 "%llu %llu %llu" SKIP_16 "%llu %llu %llu", code, code + 1, &stack, data,
                          data + 1, &heap) != 6)
    return -1;
  *map = (struct prctl_mm_map){.start_code = code[0], .end_code = code[1], .start_stack = stack, .start_data = data[0],
                               .end_data = data[1], .start_brk = heap, .brk = (uintptr_t)sbrk(0), .exe_fd = -1U};
  return 0;
}

/* What ps shows: arguments are read where they are now. Where that cannot be said, those that were are written over. */
static void show(char *arguments, char *variables, char *end, char *old, size_t room) {
  struct prctl_mm_map map;
  prctl(PR_SET_NAME, program_invocation_short_name);
  if (parts_of_self(&map) == 0) {
    map.arg_start = (uintptr_t)arguments, map.arg_end = map.env_start = (uintptr_t)variables, map.env_end = (uintptr_t)end;
    if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) == 0) return;
  }
  size_t size = (size_t)(variables - arguments);
  memset(old, 0, room);
  memcpy(old, arguments, size < room ? size : room - 1);
}

/* Each string ends with a zero byte; where one is missing the agent is not what it should be. */
static char *text(char **at, char *end) {
  char *found = *at, *zero = memchr(found, 0, (size_t)(end - found));
  if (!zero) _exit(EPROTO);
  *at = zero + 1;
  return found;
}

static char **texts(uint32_t count, char **at, char *end) {
  char **found = calloc((size_t)count + 1, sizeof *found);
  if (!found) _exit(ENOMEM);
  for (uint32_t i = 0; i < count; i++) found[i] = text(at, end);
  return found;
}

static int wait_for_vm(int argc, char **argv, char **envp) {
  (void)envp;
  int agent = call_agent(getenv("MOTE_WAITS_AT"));
  if (chdir("/") < 0) _exit(errno);
  prctl(PR_SET_NAME, "mote-waits");
  int32_t answer = 0;
  if (write(agent, &answer, sizeof answer) < 0) _exit(errno);

  uint32_t length, head[3];
  hear(agent, &length, sizeof length);
  if (length < sizeof head || length - sizeof head > MAX_MESSAGE) _exit(EMSGSIZE);
  hear(agent, head, sizeof head), hear(agent, message, length - sizeof head);
  char *at = message, *end = message + length - sizeof head;
  char *cwd = text(&at, end), *errors = text(&at, end), *tap = text(&at, end);
  char *arguments = at, **new_argv = texts(head[0], &at, end);
  char *variables = at, **new_envp = texts(head[1], &at, end);

  if (chdir(cwd) < 0) answer = errno;
  if (!answer) answer = open_errors(errors);
  if (!answer && *tap) answer = open_tap(tap, (int)head[2]);
  /* Of an agent that has died in between this is the end (SIGPIPE): whoever comes after it would not know of the VM. */
  if (write(agent, &answer, sizeof answer) < 0 || answer) _exit(answer);
  close(agent), close(tun), close(host);
  show(arguments, variables, at, argv[0], (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) + 1 - argv[0]));
  environ = new_envp;
  return qemu((int)head[0], new_argv, new_envp);
}

int __libc_start_main(program *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*at_exit)(void), void *stack) {
  __typeof__(__libc_start_main) *start = dlsym(RTLD_NEXT, "__libc_start_main");
  qemu = main;
  /* Before QEMU's constructors: one of them starts a thread, which would stay in the network that it was started in. */
  if (getenv("MOTE_WAITS_AT") && getenv("MOTE_WAITS_APART")) leave_host();
  return start(getenv("MOTE_WAITS_AT") ? wait_for_vm : main, argc, argv, init, fini, at_exit, stack);
}
