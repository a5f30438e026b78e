/*
 * Starts programs for the agent, which sends requests on stdin and reads answers from stdout. The launcher exits when
 * its stdin closes; programs that it has started keep running.
 *
 * A request: u32 length, then
 *   u32 id, u32 arguments, u32 variables,
 *   working directory, stdin, stdout, error file, cgroup directory (each zero-terminated; empty: none),
 *   arguments, variables (each zero-terminated), and the program's stdin up to the end of the request.
 * A program with an error file gets its own session. Its stderr goes to that file, and so does its stdout unless it has
 * its own file. The output of other programs is collected. Files are opened for reading and writing, so that opening a
 * named pipe does not wait for the other end.
 *
 * An answer: u32 length, u32 id, u8 kind, i32 a, i32 b, u32 bytes of stdout, stdout, stderr (the last MAX_OUTPUT bytes
 * of each).
 *   'S' the program runs: a is its pid.  'F' the program could not be started: a is errno.
 *   'X' the program has exited: a is its exit code, or -1, and b the signal that killed it, or 0.
 * Numbers are in the host's byte order.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_OUTPUT = 64 << 20, MAX_REQUEST = 16 << 20 };

struct child {
  struct child *next;
  pid_t pid;
  uint32_t id;
  int out, err; /* -1: not collected */
};

struct request {
  uint32_t id;
  const char *cwd, *in, *out, *errors, *cgroup;
  char **argv, **envp;
  const char *input;
  size_t input_size;
};

static struct child *children;

static void put(const void *data, size_t size) {
  for (const char *at = data; size > 0;) {
    ssize_t n = write(1, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) _exit(1); /* the agent has ended */
    at += n, size -= (size_t)n;
  }
}

static void answer(uint32_t id, char kind, int32_t a, int32_t b, uint32_t out, uint32_t err) {
  char head[21];
  uint32_t length = 17 + out + err;
  memcpy(head, &length, 4), memcpy(head + 4, &id, 4), head[8] = kind;
  memcpy(head + 9, &a, 4), memcpy(head + 13, &b, 4), memcpy(head + 17, &out, 4);
  put(head, sizeof head);
}

/* Writes the last `size` bytes of the file to stdout. */
static void put_file(int fd, uint32_t size) {
  static char buffer[1 << 16];
  off_t at = lseek(fd, 0, SEEK_END) - size;
  while (size > 0) {
    ssize_t n = pread(fd, buffer, size < sizeof buffer ? size : sizeof buffer, at);
    if (n <= 0) _exit(1);
    put(buffer, (size_t)n);
    at += n, size -= (uint32_t)n;
  }
}

static uint32_t size_of(int fd) {
  off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
  return size > MAX_OUTPUT ? MAX_OUTPUT : (uint32_t)size;
}

static void reap(void) {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    struct child **at = &children;
    while (*at && (*at)->pid != pid) at = &(*at)->next;
    struct child *child = *at;
    if (!child) continue;
    *at = child->next;
    uint32_t out = size_of(child->out), err = size_of(child->err);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1, by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    answer(child->id, 'X', code, by, out, err);
    if (child->out >= 0) put_file(child->out, out), close(child->out);
    if (child->err >= 0) put_file(child->err, err), close(child->err);
    free(child);
  }
}

/* Forks into the cgroup if the kernel supports it: moving a process there afterwards waits for all cores (15 ms). */
static pid_t fork_into(int cgroup, int *late) {
  struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)cgroup};
  pid_t pid = cgroup < 0 ? fork() : (pid_t)syscall(SYS_clone3, &args, sizeof args);
  *late = cgroup >= 0 && pid < 0;
  return *late ? fork() : pid;
}

static int enter(int cgroup) {
  int fd = openat(cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
  return fd < 0 || write(fd, "0", 1) < 0 ? -1 : 0;
}

static int memory_file(const char *data, size_t size) {
  int fd = memfd_create("launcher", MFD_CLOEXEC);
  if (fd < 0) return -1;
  for (size_t done = 0; done < size;) {
    ssize_t n = write(fd, data + done, size - done);
    if (n < 0) return close(fd), -1;
    done += (size_t)n;
  }
  lseek(fd, 0, SEEK_SET);
  return fd;
}

static void become(const struct request *request, int in, int out, int err) {
  sigset_t none;
  sigemptyset(&none);
  signal(SIGPIPE, SIG_DFL), signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL), signal(SIGHUP, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
  if (*request->errors) setsid();
  if (*request->cwd && chdir(request->cwd) < 0) return;
  if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) return;
  environ = request->envp;
  execvp(request->argv[0], request->argv);
}

static int output_file(const char *path) { return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600); }

/* Starts the program. Returns 0 once it runs; otherwise errno, and no process is left. */
static int start(const struct request *request) {
  int detached = *request->errors != 0, failure = 0, late = 0, cgroup = -1, told[2];
  if (*request->cgroup && (cgroup = open(request->cgroup, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) return errno;
  struct child *child = calloc(1, sizeof *child);
  if (!child || pipe2(told, O_CLOEXEC) < 0) _exit(2);
  int in = request->input_size ? memory_file(request->input, request->input_size)
                               : open(*request->in ? request->in : "/dev/null", (*request->in ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  int err = detached ? output_file(request->errors) : memory_file("", 0);
  int out = err < 0 ? -1 : *request->out ? output_file(request->out) : detached ? fcntl(err, F_DUPFD_CLOEXEC, 3) : memory_file("", 0);
  pid_t pid = in < 0 || out < 0 || err < 0 ? -1 : fork_into(cgroup, &late);
  if (pid == 0) {
    if (!late || enter(cgroup) == 0) become(request, in, out, err);
    failure = errno;
    _exit(write(told[1], &failure, sizeof failure) < 0);
  }
  if (pid < 0) failure = errno;
  close(told[1]), close(in), close(cgroup);
  if (pid > 0 && read(told[0], &failure, sizeof failure) > 0) waitpid(pid, NULL, 0);
  close(told[0]);
  if (detached || failure) close(out), close(err), out = err = -1;
  if (failure) return free(child), failure;
  *child = (struct child){.next = children, .pid = pid, .id = request->id, .out = out, .err = err};
  children = child;
  answer(request->id, 'S', pid, 0, 0, 0);
  return 0;
}

/* Reads a zero-terminated string. A missing zero byte is a bug of the agent. */
static char *text(char **at, char *end) {
  char *found = *at, *zero = memchr(found, 0, (size_t)(end - found));
  if (!zero) _exit(2);
  *at = zero + 1;
  return found;
}

static void serve(char *at, char *end) {
  uint32_t head[3];
  memcpy(head, at, sizeof head), at += sizeof head;
  struct request request = {.id = head[0]};
  request.cwd = text(&at, end), request.in = text(&at, end), request.out = text(&at, end);
  request.errors = text(&at, end), request.cgroup = text(&at, end);
  request.argv = calloc(head[1] + 1, sizeof(char *)), request.envp = calloc(head[2] + 1, sizeof(char *));
  if (!request.argv || !request.envp) _exit(2);
  for (uint32_t i = 0; i < head[1]; i++) request.argv[i] = text(&at, end);
  for (uint32_t i = 0; i < head[2]; i++) request.envp[i] = text(&at, end);
  request.input = at, request.input_size = (size_t)(end - at);
  int failure = start(&request);
  if (failure) answer(request.id, 'F', failure, 0, 0, 0);
  free(request.argv), free(request.envp);
}

/* Reads from stdin and serves all complete requests; an incomplete one stays in the buffer. */
static void receive(void) {
  static char *buffer;
  static size_t used, room;
  if (room - used < 1 << 16 && !(buffer = realloc(buffer, room += 1 << 17))) _exit(2);
  ssize_t n = read(0, buffer + used, room - used);
  if (n < 0 && errno == EINTR) return;
  if (n <= 0) _exit(0);
  used += (size_t)n;
  size_t done = 0;
  for (uint32_t length; used - done >= 4; done += 4 + length) {
    memcpy(&length, buffer + done, 4);
    if (length < 12 || length > MAX_REQUEST) _exit(2);
    if (used - done < 4 + (size_t)length) break;
    serve(buffer + done + 4, buffer + done + 4 + length);
  }
  memmove(buffer, buffer + done, used -= done);
}

int main(void) {
  sigset_t ended;
  sigemptyset(&ended), sigaddset(&ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ended, NULL);
  /* Ignore signals to the process group: the launcher exits only with the agent. */
  signal(SIGPIPE, SIG_IGN), signal(SIGINT, SIG_IGN), signal(SIGTERM, SIG_IGN), signal(SIGHUP, SIG_IGN);
  struct pollfd wait[2] = {{.fd = 0, .events = POLLIN}, {.fd = signalfd(-1, &ended, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN}};
  for (;;) {
    if (poll(wait, 2, -1) < 0 && errno != EINTR) return 1;
    struct signalfd_siginfo info;
    if (wait[1].revents)
      while (read(wait[1].fd, &info, sizeof info) > 0);
    reap();
    if (wait[0].revents) receive();
  }
}
