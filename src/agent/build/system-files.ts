/** Installs Debian packages in the builder, and copies packages and libraries into the app's image. */

import { keepBeside } from './toolchain-scripts.ts'

/**
 * Shell code that installs `$BUILD_PACKAGES` and `$RUN_PACKAGES` in the builder VM. apt runs as root, because its own
 * unprivileged user cannot reach the network in some VMs. It verifies signatures as root, too.
 */
export const installPackages = `SYSTEM=
if [ -n "\${BUILD_PACKAGES:-}\${RUN_PACKAGES:-}" ]; then
  export DEBIAN_FRONTEND=noninteractive
  cat > /etc/apt/apt.conf.d/90mote <<'END'
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Retries "1";
Dpkg::Use-Pty "0";
END
  cat > /usr/local/bin/install-packages <<'END'
#!/bin/sh
apt-get -qq -y install "$@" > /run/mote-apt.log 2>&1 || { tail -n 20 /run/mote-apt.log; exit 100; }
END
  chmod +x /usr/local/bin/install-packages
  step 'apt-get -qq update'
  step "install-packages $BUILD_PACKAGES $RUN_PACKAGES"
fi
`

/**
 * Python program that copies shared libraries from the builder to the result, with their own dependencies: those that
 * programs and modules in a directory link (`python3 - <directory> <target>`). Left out are libraries in every Debian
 * image, and those that the app itself contains, as Python wheels do.
 */
export const carryLibraries = String.raw`import os, shutil, struct, sys
top, target = sys.argv[1:]
places = ["/usr/lib/x86_64-linux-gnu", "/usr/lib"]
common = ("ld-linux", "libc.", "libm.", "libmvec.", "libdl.", "libpthread.", "librt.", "libresolv.", "libutil.", "libnsl.",
  "libanl.", "libgcc_s.", "libstdc++.", "libz.", "libbz2.", "liblzma.", "libzstd.", "liblz4.", "libcrypt.", "libcrypto.",
  "libssl.")

def needed(path):
    with open(path, "rb") as file:
        data = file.read(64)
        if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
            return []
        at, = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        file.seek(at)
        table = file.read(size * count)
        loads, dynamic = [], None
        for n in range(count):
            kind, _, offset, address, _, length, _, _ = struct.unpack_from("<IIQQQQQQ", table, n * size)
            if kind == 1:
                loads.append((address, offset, length))
            if kind == 2:
                dynamic = (offset, length)
        if dynamic is None:
            return []
        file.seek(dynamic[0])
        part = file.read(min(dynamic[1], 1 << 20))
        tags = [struct.unpack_from("<QQ", part, n) for n in range(0, len(part) - 15, 16)]
        strings = next((value for tag, value in tags if tag == 5), None)
        start = next((o + strings - a for a, o, l in loads if strings is not None and a <= strings < a + l), None)
        names = []
        for tag, value in tags:
            if tag == 1 and start is not None:
                file.seek(start + value)
                names.append(file.read(256).split(b"\0", 1)[0].decode("ascii", "replace"))
        return names

own, waiting = set(), []
for dir, _, names in os.walk(top):
    for name in names:
        path = os.path.join(dir, name)
        is_library = ".so" in name or name.endswith(".node")
        if is_library:
            own.add(name)
        try:
            state = os.lstat(path)
            if (state.st_mode & 0o170000) == 0o100000 and (is_library or state.st_mode & 0o111):
                waiting.append(path)
        except OSError:
            pass
seen = set()
while waiting:
    try:
        names = needed(waiting.pop())
    except (OSError, struct.error, OverflowError, ValueError):
        continue
    for name in names:
        if name in seen or name in own or "/" in name or name.startswith(common):
            continue
        seen.add(name)
        found = next((os.path.join(one, name) for one in places if os.path.isfile(os.path.join(one, name))), None)
        if found is not None:
            os.makedirs(target, exist_ok=True)
            shutil.copy(found, os.path.join(target, name))
            waiting.append(found)
if seen:
    copied = sorted(os.listdir(target)) if os.path.isdir(target) else []
    if copied:
        print("libraries of the image: " + " ".join(copied))
`

/**
 * Shell code that adds Debian files to the result, next to the directory `app`: the libraries that the app links, and
 * `$RUN_PACKAGES` with their dependencies. Packages that the base image contains (`$BASE_PACKAGES` and their
 * dependencies) are left out. The packages' own scripts are not run.
 */
export const systemFiles = `${keepBeside}if [ -n "\${RUN_PACKAGES:-}" ]; then
  closure() {
    apt-get -qq -o Dir::State::status=/dev/null -o Dir::State::extended_states=/dev/null -s install "$@" | sed -n 's/^Inst \\([^ ]*\\) .*/\\1/p' | sort
  }
  mkdir -p /run/mote-debs /out/usr/bin /out/usr/sbin /out/usr/lib /out/usr/lib64
  for one in bin sbin lib lib64; do ln -sfn usr/$one /out/$one; done
  closure $RUN_PACKAGES > /run/mote-wanted
  closure apt $BASE_PACKAGES > /run/mote-base
  cd /run/mote-debs
  step "apt-get -qq download $(comm -23 /run/mote-wanted /run/mote-base | tr '\\n' ' ')"
  for one in *.deb; do dpkg-deb -x "$one" /out; done
  cd /
  rm -rf /out/usr/share/doc /out/usr/share/man /out/usr/share/locale /out/usr/share/info /out/usr/share/lintian
  mkdir -p /out/etc
  cp /etc/ld.so.cache /out/etc/
fi
python3 - /out/app /out/usr/lib/x86_64-linux-gnu <<'END'
${carryLibraries}END
for one in usr etc; do if [ -d /out/$one ]; then SYSTEM="$SYSTEM $one"; fi; done
`
