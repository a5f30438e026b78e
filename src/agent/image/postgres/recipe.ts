/** The contents of the image. */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Uid and gid of the server inside the VM; not an account of the host. */
export const postgresUid = 999

export const wantedPackages = (version: number): readonly string[] => [
  `postgresql-${version}`,
  `postgresql-client-${version}`,
  'pgbackrest',
  'busybox-static',
  'openssl',
  'ca-certificates',
  'tzdata',
  'libc-bin',
]

/**
 * Wrappers and scripts for manually administered servers, and the JIT compiler, which is a third of the image and
 * disabled by `jit = off`.
 */
export const unwanted =
  /^(postgresql-common|postgresql-client-common|libllvm\d+\w*|ssl-cert|locales.*|debconf.*|cdebconf.*|perl.*|libperl.*|libjson-perl|adduser|passwd|libpam-.*|lsb-base|sysvinit-utils|init-system-helpers|dpkg|tar|sensible-utils|readline-common|netbase|ucf)$/

/** Directory of our own files for the image. */
export const guestFiles = fileURLToPath(new URL('../../../../guest/postgres/', import.meta.url))

/** Digest of our part of the image, for the keys of caches. 16 hex digits. */
export async function recipeDigest(): Promise<string> {
  const hash = createHash('sha256')
  for (const file of (await readdir(guestFiles)).toSorted()) hash.update(await readFile(join(guestFiles, file)))
  for (const file of ['build.ts', 'cluster.ts', 'recipe.ts', 'warm.ts', '../debian.ts', '../releases.ts'])
    hash.update(await readFile(join(import.meta.dirname, file)))
  return hash.digest('hex').slice(0, 16)
}
