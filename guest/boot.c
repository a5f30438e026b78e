/* From a bare kernel to a root file system and a network. */
#include "mote.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CONFIG_PART = 1 << 15 };

void fatal(const char *what) {
  /* /dev/console reaches the host's console socket, which keeps the last lines for the error message. */
  dprintf(2, "mote-init: %s: %s\n", what, strerror(errno));
  power_off();
  for (;;) pause();
}

/* Returns `mote.<key>=<value>` of the kernel command line, or NULL. */
static const char *kernel_argument(const char *key, char *value, size_t size) {
  static char line[4096];
  char wanted[64];
  if (!*line) {
    int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, line + 1, sizeof line - 2);
    if (fd >= 0) close(fd);
    *line = ' ';
    line[n > 0 ? n + 1 : 1] = 0;
  }
  snprintf(wanted, sizeof wanted, " mote.%s=", key);
  const char *at = strstr(line, wanted);
  if (!at) return NULL;
  at += strlen(wanted);
  snprintf(value, size, "%.*s", (int)strcspn(at, " \n"), at);
  return value;
}

/* Firecracker has no power-off: there a reboot ends the VM, and a power-off would hang it. */
void power_off(void) {
  char how[16];
  sync();
  /* A sandbox ends with its init. */
  if (sandbox_config()) _exit(0);
  if (!kernel_argument("off", how, sizeof how)) reboot(RB_POWER_OFF);
  reboot(RB_AUTOBOOT);
}

/*
 * `mote.proof=1`: the host only checks whether this kernel reaches user space. Waiting for missing disks would give the
 * same answer, but after 2 s, or 20 s where a sleep of a millisecond takes ten.
 */
void end_proof(void) {
  char asked[4];
  if (!kernel_argument("proof", asked, sizeof asked)) return;
  dprintf(2, "mote-init: proof\n");
  /* Wait for the host to kill the VM: after a power-off the VM might be gone before the host has read this line. */
  for (;;) pause();
}

static void must_mount(const char *from, const char *to, const char *type, unsigned long flags, const char *data) {
  mkdir(to, 0755);
  if (mount(from, to, type, flags, data) < 0) fatal(to);
}

void mount_kernel_trees(void) {
  must_mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
  must_mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
  mkdir("/dev", 0755);
  if (mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "mode=0755") < 0 && errno != EBUSY) fatal("/dev");
  int console = open("/dev/console", O_RDWR | O_NOCTTY);
  if (console >= 0)
    for (int fd = 0; fd < 3; fd++) dup2(console, fd);
  if (console > 2) close(console);
}

static int initramfs = -1;

/* The list names files of the initramfs in dependency order, which the host computed. */
static void load_listed(const char *name) {
  int list_fd = openat(initramfs, name, O_RDONLY | O_CLOEXEC);
  FILE *list = list_fd < 0 ? NULL : fdopen(list_fd, "r");
  if (!list) return;
  char line[256];
  while (fgets(line, sizeof line, list)) {
    line[strcspn(line, "\n")] = 0;
    int fd = openat(initramfs, line, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fatal(line);
    if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST) fatal(line);
    close(fd);
  }
  fclose(list);
}

void load_modules(void) {
  initramfs = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  load_listed("modules.list");
  DIR *pci = opendir("/sys/bus/pci/devices");
  int devices = 0;
  while (pci && readdir(pci)) devices++;
  if (pci) closedir(pci);
  if (devices > 2) load_listed("modules.pci");
}

void load_vsock_modules(void) {
  load_listed("modules.vsock");
}

/* Modules that only some guests need, loaded on demand: SCSI costs an emulated boot 90 ms. */
void load_late_modules(void) {
  if (initramfs < 0) return;
  load_listed("modules.late");
  close(initramfs);
  initramfs = -1;
}

/*
 * Finds the disk by its virtio serial, because the order of virtio-mmio slots is not guaranteed. A hypervisor that
 * assigns its own serials (Firecracker) passes them on the command line.
 */
static int find_disk(const char *name, char *path, size_t size) {
  char given[32];
  const char *serial = kernel_argument(name, given, sizeof given);
  if (!serial) serial = name;
  for (int attempt = 0; attempt < 2000; attempt++) {
    for (char letter = 'a'; letter <= 'p'; letter++) {
      char file[64], found[32] = "";
      snprintf(file, sizeof file, "/sys/block/vd%c/serial", letter);
      int fd = open(file, O_RDONLY | O_CLOEXEC);
      if (fd < 0) continue;
      ssize_t length = read(fd, found, sizeof found - 1);
      close(fd);
      if (length > 0 && strncmp(found, serial, strlen(serial)) == 0) {
        snprintf(path, size, "/dev/vd%c", letter);
        if (access(path, F_OK) == 0) return 0;
      }
    }
    usleep(1000);
  }
  errno = ENODEV;
  return -1;
}

void config_take(struct config *config, const char *key, char *value) {
  if (!strcmp(key, "arg") && config->argc < MAX_ARGS) config->argv[config->argc++] = value;
  else if (!strcmp(key, "env") && config->envc < MAX_ARGS) config->env[config->envc++] = value;
  else if (!strcmp(key, "file") && config->filec < MAX_FILES) config->files[config->filec++] = value;
  else if (!strcmp(key, "group") && config->groupc < MAX_GROUPS) config->groups[config->groupc++] = strtoul(value, NULL, 10);
  else if (!strcmp(key, "uid")) config->uid = strtoul(value, NULL, 10);
  else if (!strcmp(key, "gid")) config->gid = strtoul(value, NULL, 10);
  else if (!strcmp(key, "cwd")) config->cwd = value;
  else if (!strcmp(key, "hostname")) config->hostname = value;
  else if (!strcmp(key, "machine_id")) config->machine_id = value;
  else if (!strcmp(key, "base")) config->base_type = value;
  else if (!strcmp(key, "ip")) config->ip = value;
  else if (!strcmp(key, "prefix")) config->prefix = atoi(value);
  else if (!strcmp(key, "gateway")) config->gateway = value;
  else if (!strcmp(key, "gateway_mac")) config->gateway_mac = value;
  else if (!strcmp(key, "dns")) config->dns = value;
  else if (!strcmp(key, "ip6")) config->ip6 = value;
  else if (!strcmp(key, "gateway6")) config->gateway6 = value;
  else if (!strcmp(key, "route6")) config->route6 = value;
  else if (!strcmp(key, "stop_signal")) config->stop_signal = atoi(value);
  else if (!strcmp(key, "wait")) config->wait = atoi(value);
  else if (!strcmp(key, "alias") && config->aliasc < MAX_ALIASES) config->aliases[config->aliasc++] = value;
  else if (!strncmp(key, "program", 7)) programs_take(key, value);
  else if (!strcmp(key, "ports")) config->vsock = !strcmp(value, "vsock");
}

/*
 * Returns the type of the base if this VM is to become a template: the steps common to all VMs of an image are done
 * now, and the configuration is read only after the host sends `begin`.
 */
int template_base(char *type, size_t size) {
  return kernel_argument("template", type, size) != NULL;
}

void read_config(struct config *config) {
  char *buffer = mmap(NULL, CONFIG_MAX + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (buffer == MAP_FAILED) fatal("configuration");
  char disk[32];
  int fd = sandbox_config();
  if (!fd) {
    if (find_disk("config", disk, sizeof disk) < 0) fatal("config disk");
    fd = open(disk, O_RDONLY | O_CLOEXEC);
    if (fd < 0) fatal(disk);
  }
  /* A VM that resumes from a template must not read the content of the template's disk, so drop cached blocks. */
  ioctl(fd, BLKFLSBUF, 0);
  size_t used = 0;
  /* The rest of the disk is padding. */
  for (ssize_t n; used < CONFIG_MAX && (!used || buffer[used - 1]);) {
    size_t part = CONFIG_MAX - used < CONFIG_PART ? CONFIG_MAX - used : CONFIG_PART;
    if ((n = read(fd, buffer + used, part)) <= 0) break;
    used += (size_t)n;
  }
  close(fd);
  config->cwd = "/", config->hostname = "mote", config->base_type = "erofs", config->stop_signal = 15;
  for (char *line = buffer, *next; line && *line; line = next) {
    if ((next = strchr(line, '\n'))) *next++ = 0;
    char *value = strchr(line, '=');
    if (!value) continue;
    *value++ = 0;
    decode(value);
    config_take(config, line, value);
  }
}

void enter_root(const char *base_type) {
  char base[32], scratch[32];
  if (find_disk("base", base, sizeof base) < 0) fatal("base disk");
  if (find_disk("scratch", scratch, sizeof scratch) < 0) fatal("scratch disk");
  must_mount(base, "/base", base_type, MS_RDONLY, NULL);
  must_mount(scratch, "/scratch", "ext4", MS_NOATIME, NULL);
  mkdir("/scratch/upper", 0755);
  mkdir("/scratch/work", 0755);
  must_mount("overlay", "/root", "overlay", 0, "lowerdir=/base,upperdir=/scratch/upper,workdir=/scratch/work");
  static const char *const trees[] = {"/dev", "/proc", "/sys"};
  for (size_t i = 0; i < 3; i++) {
    char to[32];
    snprintf(to, sizeof to, "/root%s", trees[i]);
    mkdir(to, 0755);
    if (mount(trees[i], to, NULL, MS_MOVE, NULL) < 0) fatal(to);
  }
  if (chdir("/root") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0) fatal("chroot");
  must_mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "gid=5,mode=0620,ptmxmode=0666");
  must_mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
  mkdir("/tmp", 01777);
  mkdir("/run", 0755);
  static const char *const links[][2] = {{"/proc/self/fd", "/dev/fd"}, {"/proc/self/fd/0", "/dev/stdin"},
                                         {"/proc/self/fd/1", "/dev/stdout"}, {"/proc/self/fd/2", "/dev/stderr"}};
  for (size_t i = 0; i < 4; i++)
    if (symlink(links[i][0], links[i][1]) < 0 && errno != EEXIST) fatal(links[i][1]);
}

static void set_address(int fd, unsigned long request, struct ifreq *device, uint32_t address) {
  struct sockaddr_in *in = (struct sockaddr_in *)&device->ifr_addr;
  memset(in, 0, sizeof *in);
  in->sin_family = AF_INET;
  in->sin_addr.s_addr = address;
  if (ioctl(fd, request, device) < 0) fatal("network address");
}

static void bring_up(int fd, struct ifreq *device) {
  if (ioctl(fd, SIOCGIFFLAGS, device) < 0) fatal("network device");
  device->ifr_flags |= IFF_UP;
  if (ioctl(fd, SIOCSIFFLAGS, device) < 0) fatal("network up");
}

/* A static neighbor entry saves an ARP round trip for the first packet. */
static void fix_gateway(int fd, const struct config *config) {
  struct arpreq arp = {.arp_flags = ATF_PERM | ATF_COM, .arp_dev = "eth0"};
  struct sockaddr_in *in = (struct sockaddr_in *)&arp.arp_pa;
  in->sin_family = AF_INET;
  in->sin_addr.s_addr = inet_addr(config->gateway);
  unsigned char *mac = (unsigned char *)arp.arp_ha.sa_data;
  if (sscanf(config->gateway_mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", mac, mac + 1, mac + 2, mac + 3, mac + 4, mac + 5) == 6)
    ioctl(fd, SIOCSARP, &arp);
}

void configure_network(const struct config *config) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fatal("socket");
  struct ifreq lo = {.ifr_name = "lo"}, eth = {.ifr_name = "eth0"};
  ipv6_prepare();
  set_address(fd, SIOCSIFADDR, &lo, htonl(INADDR_LOOPBACK));
  bring_up(fd, &lo);
  if (config->ip) {
    set_address(fd, SIOCSIFADDR, &eth, inet_addr(config->ip));
    set_address(fd, SIOCSIFNETMASK, &eth, htonl(0xffffffffu << (32 - config->prefix)));
    bring_up(fd, &eth);
    if (config->gateway_mac) fix_gateway(fd, config);
    struct rtentry route = {.rt_flags = RTF_UP | RTF_GATEWAY};
    ((struct sockaddr_in *)&route.rt_dst)->sin_family = AF_INET;
    ((struct sockaddr_in *)&route.rt_genmask)->sin_family = AF_INET;
    ((struct sockaddr_in *)&route.rt_gateway)->sin_family = AF_INET;
    ((struct sockaddr_in *)&route.rt_gateway)->sin_addr.s_addr = inet_addr(config->gateway);
    /* A clone that keeps the address of its origin also keeps its route. */
    if (ioctl(fd, SIOCADDRT, &route) < 0 && errno != EEXIST) fatal("default route");
    ipv6_configure(config);
  }
  close(fd);
}

/* Overwrites the file without truncating it first: ext4 flushes truncated files at once, which took a wake 30 to 50 ms. */
void put_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return; /* an image without /etc is valid */
  off_t length = (off_t)strlen(text);
  struct stat was;
  if (write(fd, text, (size_t)length) < 0) fatal(path);
  if (fstat(fd, &was) == 0 && was.st_size > length && ftruncate(fd, length) < 0) fatal(path);
  close(fd);
}

void write_identity(const struct config *config) {
  char text[4096];
  if (sethostname(config->hostname, strlen(config->hostname)) < 0) fatal("hostname");
  mkdir("/etc", 0755);
  snprintf(text, sizeof text, "%s\n", config->hostname);
  put_file("/etc/hostname", text);
  snprintf(text, sizeof text, "127.0.0.1 localhost\n::1 localhost\n%s %s\n", config->ip ? config->ip : "127.0.1.1", config->hostname);
  /* Names of the further programs. */
  for (int i = 0; i < config->aliasc; i++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "127.0.0.1 %.64s\n::1 %.64s\n", config->aliases[i], config->aliases[i]);
  }
  put_file("/etc/hosts", text);
  if (config->machine_id) {
    snprintf(text, sizeof text, "%s\n", config->machine_id);
    put_file("/etc/machine-id", text);
  }
  if (config->dns) {
    snprintf(text, sizeof text, "nameserver %s\n", config->dns);
    put_file("/etc/resolv.conf", text);
  }
}
