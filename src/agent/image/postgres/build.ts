/**
 * Builds the image of database VMs from packages of the distribution: PostgreSQL, pgBackRest and their dependencies, a
 * static busybox, our start script, and an initialized cluster. In an emulated guest, initdb would take seconds;
 * copying its result does not.
 */
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { hostLock } from '../../../lib/host-lock.ts'
import { compileStatic } from '../../guest/init.ts'
import { type Apt, isPackage, mergeUsr, packageClosure, plainTar, unpackPackages } from '../debian.ts'
import { aptOf, releaseOfPostgres } from '../releases.ts'
import { tagsOf, writeLayout } from '../write-layout.ts'
import { initializeCluster } from './cluster.ts'
import { volumeContent } from '../seed.ts'
import { guestFiles, postgresUid, unwanted, wantedPackages } from './recipe.ts'
import { warmList } from './warm.ts'

export interface PostgresImageOptions {
  /** Directory for OCI layouts, in which the image becomes `oci:postgres:<version>`. */
  readonly imageDir: string
  /** Major version of PostgreSQL. */
  readonly version: number
  /** Whether to replace an existing image. */
  readonly again?: boolean
  readonly say?: (line: string) => void
}

/**
 * Builds the image `oci:postgres:<version>` unless it exists. Needs root, because the cluster is initialized in a
 * chroot, and apt with a repository that has `postgresql-<version>`.
 * @returns the image reference for deployments
 * @throws Error that names what is missing
 */
export async function buildPostgresImage(options: PostgresImageOptions): Promise<string> {
  const { imageDir, version, say = () => undefined } = options
  const layoutDir = join(imageDir, 'postgres')
  const name = `oci:postgres:${version}`
  const lock = await hostLock(`image ${layoutDir}`)
  try {
    if (!options.again && (await tagsOf(layoutDir)).includes(String(version))) return name
    if (process.getuid?.() !== 0) throw new Error('Building the PostgreSQL image needs root: it uses chroot.')
    await mkdir(imageDir, { recursive: true })
    const scratch = await mkdtemp(join(imageDir, '.postgres-'))
    try {
      await build(layoutDir, version, scratch, say)
    } finally {
      await rm(scratch, { recursive: true, force: true })
    }
    return name
  } finally {
    await lock.release()
  }
}

async function build(layoutDir: string, version: number, scratch: string, say: (line: string) => void): Promise<void> {
  const [root, owned] = [join(scratch, 'root'), join(scratch, 'owned')]
  await mkdir(root)
  const apt = await aptFor(version, join(scratch, 'apt'), say)
  const names = await packageClosure({ wanted: wantedPackages(version), unwanted }, apt)
  say(`downloading ${names.length} packages`)
  const inventory = await unpackPackages(names, root, join(scratch, 'packages'), apt)
  await mergeUsr(root)
  await furnish(root, version, inventory)
  say('initializing a cluster')
  await initializeCluster({ root, version, uid: postgresUid, target: join(owned, volumeContent, 'pgdata') })
  for (const dir of ['run/postgresql', 'run/pgbackrest', 'var/lib/postgresql', 'data', 'backup'])
    await mkdir(join(owned, dir), { recursive: true })
  say('packing')
  await plainTar(root, join(scratch, 'root.tar'), 0)
  await plainTar(owned, join(scratch, 'owned.tar'), postgresUid)
  const bin = `/usr/lib/postgresql/${version}/bin`
  await writeLayout(layoutDir, {
    tag: String(version),
    layers: [join(scratch, 'root.tar'), join(scratch, 'owned.tar')],
    config: {
      User: 'postgres',
      Env: [
        `PATH=/usr/local/bin:${bin}:/usr/bin:/bin`,
        'PGHOST=/run/postgresql',
        'PGUSER=postgres',
        'PGDATABASE=postgres',
        'PGBACKREST_STANZA=main',
      ],
      Entrypoint: ['/usr/local/bin/mote-start'],
      WorkingDir: '/var/lib/postgresql',
      // Fast shutdown: disconnects clients and writes a checkpoint.
      StopSignal: 'SIGINT',
      ExposedPorts: { '5432/tcp': {} },
    },
  })
}

/**
 * Returns the arguments for apt to read the host's own package lists if they have this PostgreSQL version, otherwise
 * those of a release that has it.
 */
async function aptFor(version: number, dir: string, say: (line: string) => void): Promise<Apt> {
  if (await isPackage(`postgresql-${version}`)) return []
  const release = releaseOfPostgres[version]
  if (!release) throw new Error(`apt has no package postgresql-${version}, and no release is known that has it.`)
  say(`reading the package lists of ${release.name}`)
  return aptOf(release, dir)
}

/** Makes the changes that the scripts of the packages would make, and adds Mote's own files. */
async function furnish(root: string, version: number, inventory: readonly string[]): Promise<void> {
  const put = async (path: string, text: string) => {
    await mkdir(dirname(join(root, path)), { recursive: true })
    await writeFile(join(root, path), text)
  }
  await put(
    'etc/passwd',
    `root:x:0:0::/:/bin/sh\npostgres:x:${postgresUid}:${postgresUid}::/var/lib/postgresql:/bin/sh\n`,
  )
  await put('etc/group', `root:x:0:\npostgres:x:${postgresUid}:\n`)
  await put('etc/hosts', '127.0.0.1 localhost\n')
  await put('usr/share/mote/packages', `${inventory.join('\n')}\n`)
  for (const applet of applets) await symlink('busybox', join(root, 'bin', applet)).catch(ignoreExisting)
  for (const file of ['postgresql.conf', 'pg_hba.conf', 'pg_ident.conf'])
    await copyGuest(file, join(root, 'etc/mote', file))
  await put('etc/ssl/certs/ca-certificates.crt', await certificates(join(root, 'usr/share/ca-certificates/mozilla')))
  await copyGuest('pgbackrest.conf', join(root, 'etc/pgbackrest.conf'))
  for (const program of [
    'start',
    'mote-volumes',
    'mote-settle',
    'mote-password',
    'mote-backup',
    'mote-archive',
    'mote-check',
    'mote-history',
  ]) {
    const target = join(root, 'usr/local/bin', program === 'start' ? 'mote-start' : program)
    await copyGuest(program, target)
    await chmod(target, 0o755)
  }
  await compileStatic(join(root, 'usr/local/bin/mote-pg'), [join(guestFiles, 'pg.c')])
  await symlink('mote-pg', join(root, 'usr/local/bin/mote-ready'))
  for (const heavy of [
    'usr/share/doc',
    'usr/share/man',
    'usr/share/locale',
    'usr/share/lintian',
    `usr/lib/postgresql/${version}/lib/bitcode`,
  ])
    await rm(join(root, heavy), { recursive: true, force: true })
  await put('usr/share/mote/warm', `${(await warmList(root, version)).join('\n')}\n`)
}

const applets = (
  'sh cp mv rm mkdir sync grep sed touch sleep cat ls id date env head tail wc true false printf echo setsid ps kill ' +
  'chmod chown ln df du stat find sort tr cut expr test'
).split(' ')

/** Concatenates the package's certificate authorities, like update-ca-certificates(8). */
async function certificates(dir: string): Promise<string> {
  const files = (await readdir(dir)).filter(name => name.endsWith('.crt')).toSorted()
  return (await Promise.all(files.map(name => readFile(join(dir, name), 'utf8')))).join('')
}

async function copyGuest(file: string, target: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true })
  await copyFile(join(guestFiles, file), target)
}

function ignoreExisting(error: unknown): void {
  if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
}
