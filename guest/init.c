/*
 * PID 1 of every Mote guest: mounts the root, runs the image's program, forwards its output to the host, reaps
 * processes, and executes requests from the control port. It never restarts that program by itself: the host decides. It
 * does restart the further programs of a VM (programs.c).
 */
#include "mote.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

static struct config config;
static struct workload workload = {.out = -1, .err = -1};
static int epoll = -1, kill_timer = -1, halting, begun;

static void watch(int fd, uint32_t events) {
  struct epoll_event event = {.events = events, .data.fd = fd};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) fatal("epoll");
}

static void watch_input(int fd) {
  watch(fd, EPOLLIN);
}

static void halt(void) {
  sync();
  control_say("* halted\n");
  power_off();
}

/* Reads available data, at most a few pipes full, so that one busy writer cannot starve the control port. */
static void drain(int *fd, enum stream stream) {
  char buffer[16384];
  if (*fd < 0) return;
  int open = 1;
  for (int turn = 0; open && turn < 16; turn++) {
    ssize_t n = read(*fd, buffer, sizeof buffer);
    if (n > 0) log_bytes(stream, buffer, (size_t)n);
    else if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    else open = 0;
  }
  if (open) return;
  log_end(stream);
  close(*fd);
  *fd = -1;
}

/* Starts the next program that runs before the workload, or the workload with those beside it. */
static int run_next(void) {
  /* Children of the previous one may still hold its pipes; their output is discarded. */
  if (workload.out >= 0) close(workload.out);
  if (workload.err >= 0) close(workload.err);
  int result = programs_before(&workload, &config);
  if (result < 0 || (result > 0 && workload_start(&workload, &config) < 0)) return -1;
  watch(workload.out, EPOLLIN), watch(workload.err, EPOLLIN);
  if (result > 0) programs_start(&config, watch_input);
  return 0;
}

static void halt_if_ended(void) {
  if (halting && !workload.pid && !programs_signal(0)) halt();
}

static void reap(void) {
  int status;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (sandbox_reaped(pid)) power_off();
    if (exec_reaped(pid, status) || session_reaped(pid, status)) continue;
    if (programs_reaped(pid, status, halting, workload.pid)) {
      halt_if_ended();
      continue;
    }
    if (pid != workload.pid) continue;
    workload.pid = 0, workload.exited = 1;
    workload.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    drain(&workload.out, OUT), drain(&workload.err, ERR);
    log_pump();
    if (programs_before_done(workload.code) && !halting) {
      if (run_next() == 0) continue;
      workload.code = 126;
    }
    control_say("* exit %d\n", workload.code);
    halt_if_ended();
  }
}

static int start(void) {
  if (workload.pid) return 0;
  /* After the host has mounted the volumes. */
  const char *refused = write_given_files(&config);
  if (!refused) refused = programs_link();
  if (refused) fatal(refused);
  if (run_next() < 0) return -1;
  control_say("* started %d\n", workload.pid);
  return 0;
}

/* Runs once: a VM that has its configuration keeps it. */
static void begin(const char *id, char *text) {
  if (!begun && identity_begin(&config, text) < 0) {
    control_say("%s err no entropy\n", id);
    return;
  }
  int first = !begun;
  begun = 1;
  if (first && !config.wait && start() < 0) fatal("start");
  control_say("%s ok\n", id);
}

static void off(int grace_ms) {
  halting = 1;
  programs_signal(config.stop_signal);
  halt_if_ended();
  struct itimerspec when = {.it_value = {grace_ms / 1000, (grace_ms % 1000) * 1000000L + 1}};
  timerfd_settime(kill_timer, 0, &when, NULL);
  if (workload.pid) kill(-workload.pid, config.stop_signal);
}

static void network_counters(const char *id) {
  unsigned long long rx = 0, tx = 0;
  char line[512];
  FILE *file = fopen("/proc/net/dev", "re");
  while (file && fgets(line, sizeof line, file))
    sscanf(line, " eth0: %llu %*u %*u %*u %*u %*u %*u %*u %llu", &rx, &tx);
  if (file) fclose(file);
  control_say("%s ok %llu %llu\n", id, rx, tx);
}

/* For hypervisors whose balloon reports no statistics. */
static void memory_counters(const char *id) {
  unsigned long long total = 0, available = 0;
  char line[256];
  FILE *file = fopen("/proc/meminfo", "re");
  while (file && fgets(line, sizeof line, file))
    if (!sscanf(line, "MemTotal: %llu", &total)) sscanf(line, "MemAvailable: %llu", &available);
  if (file) fclose(file);
  control_say("%s ok %llu %llu\n", id, total * 1024, available * 1024);
}

static void watch_output(int fd) {
  watch(fd, EPOLLIN | EPOLLET);
}

static void watch_session(int fd) {
  watch(fd, EPOLLIN | EPOLLOUT | EPOLLET);
}

/* `<id> <verb> [arguments]` -> `<id> ok|err [text]`. */
static void on_control(char *line) {
  char id[40], verb[32];
  int length = 0;
  if (sscanf(line, "%39s %31s%n", id, verb, &length) < 2) return;
  char *rest = line + length + (line[length] == ' ');
  int argument = atoi(rest);
  if (!strcmp(verb, "ping")) control_say("%s ok\n", id);
  else if (!strcmp(verb, "status")) {
    if (workload.pid) control_say("%s ok running %d\n", id, workload.pid);
    else control_say("%s ok %s %d\n", id, workload.exited ? "exited" : "idle", workload.code);
  } else if (!strcmp(verb, "start")) control_say("%s %s\n", id, start() == 0 ? "ok" : "err cannot fork");
  else if (!strcmp(verb, "listening")) control_say("%s ok %d\n", id, listening(&config, argument));
  else if (!strcmp(verb, "net")) network_counters(id);
  else if (!strcmp(verb, "memory")) memory_counters(id);
  else if (!strcmp(verb, "off")) control_say("%s ok\n", id), off(argument);
  else if (!strcmp(verb, "exec")) exec_start(&config, id, rest, watch_output);
  else if (!strcmp(verb, "mount")) disk_mount(&config, id, rest);
  else if (!strcmp(verb, "unmount")) disk_unmount(id, rest);
  else if (!strcmp(verb, "grow")) disk_grow(id, rest);
  else if (!strcmp(verb, "rescan")) disk_rescan_all(), control_say("%s ok\n", id);
  else if (!strcmp(verb, "freeze")) disk_freeze(id, rest);
  else if (!strcmp(verb, "thaw")) disk_thaw_all(), control_say("%s ok\n", id);
  else if (!strcmp(verb, "bind")) sandbox_bind(&config, id, rest);
  else if (!strcmp(verb, "unbind")) sandbox_unbind(id, rest);
  else if (!strcmp(verb, "begin")) begin(id, rest);
  else if (!strcmp(verb, "identity")) identity_renew(&config, id, rest);
  else if (!session_command(&config, verb, id, rest, watch_session)) control_say("%s err unknown verb\n", id);
}

/* Runs until the host ends the VM. */
static void serve(void) {
  ports_open(&config);

  sigset_t caught;
  sigemptyset(&caught);
  sigaddset(&caught, SIGCHLD), sigaddset(&caught, SIGTERM), sigaddset(&caught, SIGINT), sigaddset(&caught, SIGALRM);
  sigprocmask(SIG_BLOCK, &caught, NULL);
  int signals = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
  kill_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  epoll = epoll_create1(EPOLL_CLOEXEC);
  watch(signals, EPOLLIN), watch(kill_timer, EPOLLIN);
  /* Edge-triggered, because a port without a host is always readable (end of file). */
  for (int which = 0; which < 2; which++)
    if (port_listeners(which) >= 0) watch(port_listeners(which), EPOLLIN);
  if (log_fd() >= 0) watch(log_fd(), EPOLLIN | EPOLLOUT | EPOLLET), watch(control_fd(), EPOLLIN | EPOLLOUT | EPOLLET);
  /* With volumes, the host mounts them first and then sends `start`. */
  if (begun && !config.wait && start() < 0) fatal("start");

  for (int busy = 0;;) {
    struct epoll_event events[8];
    int timeout = exec_wait_ms(), start_ms = programs_wait_ms();
    if (timeout < 0 || (start_ms >= 0 && start_ms < timeout)) timeout = start_ms;
    int count = epoll_wait(epoll, events, 8, busy ? 0 : timeout);
    for (int i = 0; i < count; i++) {
      int fd = events[i].data.fd;
      if (fd == signals) {
        struct signalfd_siginfo info;
        int asked = 0;
        while (read(signals, &info, sizeof info) == sizeof info)
          if (info.ssi_signo == SIGALRM) disk_thaw_all();
          else asked |= info.ssi_signo != SIGCHLD;
        reap();
        if (asked && !halting) off(10000);
      } else if (fd == kill_timer) {
        uint64_t ticks;
        if (read(kill_timer, &ticks, sizeof ticks) > 0) {
          programs_signal(SIGKILL);
          if (workload.pid) kill(-workload.pid, SIGKILL);
        }
      } else if (fd == port_listeners(0) || fd == port_listeners(1)) {
        int connection = port_accept(fd);
        if (connection >= 0) watch(connection, EPOLLIN | EPOLLOUT | EPOLLET);
      } else if (fd == log_fd()) log_read();
      else if (fd == control_fd()) control_read(on_control), control_pump();
      else if (fd == workload.out) drain(&workload.out, OUT);
      else if (fd == workload.err) drain(&workload.err, ERR);
      else programs_read(fd);
    }
    if (!halting) programs_pump(&config, watch_input);
    log_pump();
    exec_pump();
    busy = session_pump();
  }
}

int main(int argc, char **argv) {
  char base_type[16];
  /* The host only checks whether sandboxes start. */
  if (argc == 2 && !strcmp(argv[1], "proof")) return 0;
  if (argc == 4 && !strcmp(argv[1], "carry")) sandbox_carry(argv + 2);
  if (argc == 3 && !strcmp(argv[1], "sandbox")) {
    sandbox_enter(argv[2]);
    begun = 1;
    read_config(&config);
    write_identity(&config);
    serve();
  }
  mount_kernel_trees();
  end_proof();
  load_modules();
  begun = !template_base(base_type, sizeof base_type);
  if (begun) {
    read_config(&config);
    enter_root(config.base_type);
    configure_network(&config);
    write_identity(&config);
  } else {
    load_late_modules();
    enter_root(base_type);
    warm_up();
  }
  serve();
}
