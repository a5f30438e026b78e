/*
 * Volumes: disks that are attached and detached while the guest runs, found by their serial: SCSI under QEMU, virtio
 * elsewhere.
 */
#include "mote.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* Vital product data page 0x80 is four bytes of header, then the serial (SPC-4 7.8.17). */
static int has_scsi_serial(const char *name, const char *serial) {
  char path[300], page[128] = "";
  snprintf(path, sizeof path, "/sys/block/%s/device/vpd_pg80", name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = read(fd, page, sizeof page - 1);
  close(fd);
  return n > 4 && !strcmp(page + 4, serial);
}

/* Queried from the device at every read; at most 20 bytes (virtio 1.2, 5.2.6.1). */
static int has_virtio_serial(const char *name, const char *serial) {
  char path[300], found[32] = "";
  snprintf(path, sizeof path, "/sys/block/%s/serial", name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t n = read(fd, found, sizeof found - 1);
  close(fd);
  found[strcspn(found, "\n")] = 0;
  return n > 0 && !strcmp(found, serial);
}

static int is_scsi(const char *name) {
  return !strncmp(name, "sd", 2);
}

static int has_serial(const char *name, const char *serial) {
  if (is_scsi(name)) return has_scsi_serial(name, serial);
  return !strncmp(name, "vd", 2) && has_virtio_serial(name, serial);
}

static int find_volume(const char *serial, char *name, size_t size) {
  DIR *dir = opendir("/sys/block");
  int found = 0;
  for (struct dirent *entry; dir && !found && (entry = readdir(dir));)
    if (has_serial(entry->d_name, serial))
      snprintf(name, size, "%s", entry->d_name), found = 1;
  if (dir) closedir(dir);
  return found;
}

/* After a resume from a snapshot, known device names may belong to other disks. */
void disk_rescan_all(void) {
  DIR *dir = opendir("/sys/block");
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (is_scsi(entry->d_name)) disk_rescan(entry->d_name);
  if (dir) closedir(dir);
}

static int is_mounted(const char *device, const char *at) {
  char line[1024], from[300], to[512];
  int found = 0;
  FILE *file = fopen("/proc/self/mounts", "re");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "%299s %511s", from, to) == 2 && !strcmp(from, device) && !strcmp(to, at)) found = 1;
  if (file) fclose(file);
  return found;
}

/* Gives an empty new volume to the workload's user; a volume with content is left unchanged. */
void give_to_workload(const struct config *config, const char *at) {
  struct stat stat_of;
  int entries = 0;
  DIR *dir = opendir(at);
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    entries += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") && strcmp(entry->d_name, "lost+found");
  if (dir) closedir(dir);
  if (dir && !entries && !stat(at, &stat_of) && !stat_of.st_uid && chown(at, config->uid, config->gid) < 0) perror(at);
}

/* `<volume> <rw|ro> <mount point>`; `err absent` until the kernel has found the disk: the host retries. */
void disk_mount(const struct config *config, const char *id, char *text) {
  char serial[64], mode[4], at[512], name[256], device[300];
  if (sscanf(text, "%63s %3s %511s", serial, mode, at) != 3) {
    control_say("%s err mount what\n", id);
    return;
  }
  if (!config->vsock) load_late_modules();
  decode(at);
  if (!find_volume(serial, name, sizeof name)) {
    control_say("%s err absent\n", id);
    return;
  }
  snprintf(device, sizeof device, "/dev/%s", name);
  int read_only = !strcmp(mode, "ro");
  if (!is_mounted(device, at)) {
    make_path(at);
    unsigned long flags = MS_NOATIME | MS_NODEV | MS_NOSUID | (read_only ? MS_RDONLY : 0);
    /* After a crash of the last writer, the journal cannot be replayed on a read-only mount, so skip it. */
    if (mount(device, at, "ext4", flags, NULL) < 0 && (!read_only || mount(device, at, "ext4", flags, "noload") < 0)) {
      control_say("%s err cannot mount at %s: %s\n", id, at, strerror(errno));
      return;
    }
  }
  if (!read_only) {
    /* The disk may have grown since the last mount. If growing the file system fails, the volume is still usable. */
    if (disk_fill(device, at) < 0) perror(at);
    give_to_workload(config, at);
  }
  control_say("%s ok\n", id);
}

/*
 * `<volume> <mount point> [MiB]`: grows the file system to the size of the grown disk. `err absent` until the kernel
 * has seen the new size: the host retries.
 */
void disk_grow(const char *id, char *text) {
  char serial[64], at[512], name[256], device[300];
  unsigned long long mib = 0;
  if (sscanf(text, "%63s %511s %llu", serial, at, &mib) < 2) {
    control_say("%s err grow what\n", id);
    return;
  }
  decode(at);
  if (!find_volume(serial, name, sizeof name)) {
    control_say("%s err absent\n", id);
    return;
  }
  snprintf(device, sizeof device, "/dev/%s", name);
  disk_rescan(name);
  if (disk_bytes(device) < mib << 20) control_say("%s err absent\n", id);
  else if (disk_fill(device, at) < 0) control_say("%s err cannot grow %s: %s\n", id, at, strerror(errno));
  else control_say("%s ok\n", id);
}

/* `<volume> <mount point>`: flushes and unmounts the volume and detaches its disk. */
void disk_unmount(const char *id, char *text) {
  char serial[64], at[512], name[256], path[300];
  if (sscanf(text, "%63s %511s", serial, at) != 2) {
    control_say("%s err unmount what\n", id);
    return;
  }
  decode(at);
  if (!find_volume(serial, name, sizeof name)) {
    control_say("%s ok\n", id);
    return;
  }
  snprintf(path, sizeof path, "/dev/%s", name);
  sync();
  if (is_mounted(path, at) && umount2(at, 0) < 0) {
    control_say("%s err cannot unmount %s: %s\n", id, at, strerror(errno));
    return;
  }
  if (!is_scsi(name)) {
    /* The host detaches a virtio disk itself. */
    control_say("%s ok\n", id);
    return;
  }
  snprintf(path, sizeof path, "/sys/block/%s/device/delete", name);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  int gone = fd >= 0 && write(fd, "1", 1) == 1;
  if (fd >= 0) close(fd);
  control_say(gone ? "%s ok\n" : "%s err cannot let go of the disk\n", id);
}

/* If the host disappears, the freeze ends after this time, so that writes of the workload do not block for ever. */
enum { FROZEN_SECONDS = 10 };
/* From linux/fs.h, which musl lacks. */
#define FIFREEZE _IOWR('X', 119, int)
#define FITHAW _IOWR('X', 120, int)
static char frozen[512];

static int freeze_ioctl(const char *at, unsigned long what) {
  int fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int result = fd < 0 ? -1 : ioctl(fd, what, 0);
  if (fd >= 0) close(fd);
  return result;
}

void disk_thaw_all(void) {
  alarm(0);
  if (*frozen) freeze_ioctl(frozen, FITHAW);
  *frozen = 0;
}

/* `<mount point>`: flushes the file system and blocks writes until `thaw`. */
void disk_freeze(const char *id, char *text) {
  char at[512];
  disk_thaw_all();
  if (sscanf(text, "%511s", at) != 1) {
    control_say("%s err freeze what\n", id);
    return;
  }
  decode(at);
  alarm(FROZEN_SECONDS);
  if (freeze_ioctl(at, FIFREEZE) < 0) {
    control_say("%s err cannot freeze %s: %s\n", id, at, strerror(errno));
    alarm(0);
    return;
  }
  snprintf(frozen, sizeof frozen, "%s", at);
  control_say("%s ok\n", id);
}
