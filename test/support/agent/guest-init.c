/* For tests: replaces parts of the guest's init that need a VM, so that its main loop runs in an ordinary process. */
#include "../../../guest/mote.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void fatal(const char *what) { perror(what), _exit(1); }
void power_off(void) {
  for (int i = 0; i < SESSIONS_MAX; i++)
    if (sessions[i].used && sessions[i].pid) session_signal(&sessions[i], SIGKILL);
  _exit(0);
}
void mount_kernel_trees(void) { prctl(PR_SET_PDEATHSIG, SIGTERM); }
void end_proof(void) {}
void load_modules(void) {}
void load_late_modules(void) {}
void load_vsock_modules(void) {}
int template_base(char *type, size_t size) { return (void)type, (void)size, 0; }
void read_config(struct config *config) {
  config->wait = config->vsock = 1, config->stop_signal = SIGTERM;
  config->uid = getuid(), config->gid = getgid(), config->cwd = "/";
  config->env[config->envc++] = "PATH=/usr/bin:/bin", config->env[config->envc++] = "GREETING=hello";
}
void enter_root(const char *base_type) { (void)base_type; }
void configure_network(const struct config *config) { (void)config; }
void write_identity(const struct config *config) { (void)config; }
int identity_begin(struct config *config, char *text) { return (void)config, (void)text, 0; }
void identity_renew(struct config *config, const char *id, char *text) { (void)config, (void)id, (void)text; }
void disk_mount(const struct config *config, const char *id, char *text) { (void)config, (void)id, (void)text; }
void disk_unmount(const char *id, char *text) { (void)id, (void)text; }
void disk_grow(const char *id, char *text) { (void)id, (void)text; }
void disk_freeze(const char *id, char *text) { (void)id, (void)text; }
void disk_thaw_all(void) {}
void disk_rescan_all(void) {}
void warm_up(void) {}
void sandbox_enter(const char *config_file) { (void)config_file; }
void sandbox_carry(char **numbers) { (void)numbers; }
int sandbox_config(void) { return 0; }
void sandbox_ports(int mine[2]) { (void)mine; }
int sandbox_reaped(pid_t pid) { return (void)pid, 0; }
void sandbox_bind(const struct config *config, const char *id, char *text) { (void)config, (void)id, (void)text; }
void sandbox_unbind(const char *id, char *text) { (void)id, (void)text; }

/* Listens on a socket in the working directory for a vsock port. Its name exists once it accepts connections. */
int vsock_listen(unsigned port) {
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "new.sock"};
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4) < 0) fatal("listen");
  if (rename(address.sun_path, port == 1001 ? "ctl.sock" : "log.sock") < 0) fatal("rename");
  return fd;
}
int vsock_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK); }
