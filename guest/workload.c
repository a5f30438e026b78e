/* The image's program: started as its user, with pipes for its streams. */
#include "mote.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *path_of(const struct config *config) {
  for (int i = 0; i < config->envc; i++)
    if (!strncmp(config->env[i], "PATH=", 5)) return config->env[i] + 5;
  return "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
}

/* Like execvpe, but with the PATH of the workload, not of init. Returns only on failure, with the errno to report. */
static void run(const struct config *config, char *const *argv) {
  /* A VM that only has sessions. */
  if (!strcmp(argv[0], "/.mote/wait"))
    for (;;) pause();
  if (strchr(argv[0], '/')) {
    execve(argv[0], argv, config->env);
    return;
  }
  int reason = ENOENT;
  char candidate[4096];
  for (const char *dir = path_of(config); dir;) {
    const char *end = strchr(dir, ':');
    int length = end ? (int)(end - dir) : (int)strlen(dir);
    snprintf(candidate, sizeof candidate, "%.*s/%s", length, dir, argv[0]);
    execve(candidate, argv, config->env);
    if (errno == EACCES) reason = EACCES;
    dir = end ? end + 1 : NULL;
  }
  errno = reason;
}

enum { OWN_TTY = 1, OWN_CWD = 2, FILE_TOOL = 4 };

/* Standard input is /dev/null if stdio[0] is -1. The streams belong to the user, so that it can open /dev/stdout. */
static void become(const struct config *config, char *const *argv, const int stdio[3], int flags) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setsid();
  int in = stdio[0] < 0 ? open("/dev/null", O_RDWR) : stdio[0];
  dup2(in, 0), dup2(stdio[1], 1), dup2(stdio[2], 2);
  if (stdio[0] < 0 && in > 2) close(in);
  if (flags & OWN_TTY) ioctl(0, TIOCSCTTY, 0);
  if (!(flags & OWN_CWD)) mkdir(config->cwd, 0755);
  for (int fd = stdio[0] < 0 ? 1 : 0; fd < 3; fd++)
    if (fchown(fd, config->uid, config->gid) < 0) dprintf(2, "mote-init: fchown\n");
  if (setgroups((size_t)config->groupc, config->groups) < 0 || setgid(config->gid) < 0 || setuid(config->uid) < 0) {
    dprintf(2, "mote-init: cannot become uid %u: %s\n", config->uid, strerror(errno));
    _exit(126);
  }
  if (chdir(config->cwd) < 0) {
    dprintf(2, "mote-init: working directory %s: %s\n", config->cwd, strerror(errno));
    _exit(126);
  }
  if (flags & FILE_TOOL) {
    /* Nothing is executed, so the other descriptors of init do not close by themselves. */
    for (int fd = 3; fd < 1024; fd++) close(fd);
    _exit(file_tool(argv));
  }
  run(config, argv);
  dprintf(2, "mote-init: cannot run %s: %s\n", argv[0], strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

/* Starts the program as the image's user in its own session; fds are the non-blocking ends of its output. */
pid_t spawn(const struct config *config, char *const *argv, int fds[2]) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) < 0) return -1;
  if (pipe2(err, O_CLOEXEC) < 0) return close(out[0]), close(out[1]), -1;
  pid_t pid = fork();
  if (pid == 0) become(config, argv, (int[]){-1, out[1], err[1]}, 0);
  close(out[1]), close(err[1]);
  if (pid < 0) return close(out[0]), close(err[0]), -1;
  fcntl(out[0], F_SETFL, O_NONBLOCK), fcntl(err[0], F_SETFL, O_NONBLOCK);
  fds[0] = out[0], fds[1] = err[0];
  return pid;
}

/* Starts a program, or a tool of files.c, with these streams. A working directory that does not exist is an error. */
pid_t spawn_session(const struct config *config, char *const *argv, const int stdio[3], int tty, int tool) {
  pid_t pid = fork();
  if (pid == 0) become(config, argv, stdio, OWN_CWD | (tty ? OWN_TTY : 0) | (tool ? FILE_TOOL : 0));
  return pid;
}

int workload_start(struct workload *workload, const struct config *config) {
  int fds[2];
  pid_t pid = spawn(config, config->argv, fds);
  if (pid < 0) return -1;
  workload->pid = pid, workload->out = fds[0], workload->err = fds[1], workload->exited = 0;
  return 0;
}

/*
 * Whether a process accepts connections on the port: with QEMU's user networking, a connect from the host proves
 * nothing.
 */
int listening(const struct config *config, int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  to.sin_addr.s_addr = config->ip ? inet_addr(config->ip) : htonl(INADDR_LOOPBACK);
  int result = connect(fd, (struct sockaddr *)&to, sizeof to);
  close(fd);
  return result == 0;
}
