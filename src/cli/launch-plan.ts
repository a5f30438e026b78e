/** Decides what `mote launch` creates from a folder: by flags, else by the folder's contents or the user's answers. */
import type { AppFile } from '../appfile/schema.ts'
import type { DeployAppRequest } from '../client/index.ts'
import { run } from '../lib/exec.ts'
import { appNameFrom } from './folder.ts'
import { type Procfile, procfileIn, procfileText } from './procfile.ts'
import { type Call, text, wholeNumber } from './verb.ts'

/**
 * Returns whether a folder with a compose file becomes a stack: with `--yes`, or if the user agrees. Without a
 * terminal, or with flags that describe one app, it becomes a single app.
 */
export async function isComposed({ flags, terminal }: Call, dir: string): Promise<boolean> {
  const { composeFileIn } = await import('./compose-files.ts')
  const found = composeFileIn(dir)
  const isOneApp = ['name', 'image', 'gitUrl', 'upload', 'port'].some(flag => flags[flag] !== undefined)
  if (found === undefined || isOneApp) return false
  const isAgreed = flags.yes === true
  if (dir !== process.cwd() || (!process.stdin.isTTY && !isAgreed)) {
    terminal.line(`This folder has a ${found}. To deploy all of its services, run mote compose up there.`)
    return false
  }
  const { agree } = await import('./ask.ts')
  return isAgreed || agree(`Deploy the services of ${found}, as mote compose up does?`, '--name')
}

/**
 * Returns the `mote.toml` of a new app. It omits settings that were not given, because the app was created with their
 * defaults.
 */
export function fileOf(
  { project }: Call,
  { name, image, gitUrl, port, procfile }: Plan,
  { vcpus, memory_mib, disk_mib }: DeployAppRequest,
): AppFile {
  return {
    app: name,
    ...(project ? { project } : {}),
    ...(image ? { build: { image } } : gitUrl === '' ? {} : { build: { repository: gitUrl } }),
    ...(procfile?.release ? { release: procfile.release } : {}),
    processes: {
      ...procfile?.workers,
      web: {
        port,
        ...(vcpus ? { vcpus } : {}),
        ...(memory_mib ? { memory_mib } : {}),
        ...(disk_mib ? { disk_mib } : {}),
      },
    },
  }
}

interface Plan {
  readonly name: string
  readonly image: string | undefined
  readonly gitUrl: string
  readonly port: number
  readonly upload: boolean
  /** Undefined if the folder has no Procfile, or one that only says how to start the app. */
  readonly procfile: Procfile | undefined
}

/** Asks for the settings that no flag gives, and suggests defaults from the contents of the folder. */
export async function planOf({ flags, terminal }: Call, dir: string): Promise<Plan> {
  const { ask: askPerson, choose } = await import('./ask.ts')
  const ask = async (question: string, flag: string, fallback?: string) =>
    flags.yes === true && fallback !== undefined ? fallback : askPerson(question, flag, fallback)
  const { inspectFolder } = await import('./folder-kind.ts')
  const found = await inspectFolder(dir)
  if (found) terminal.line(`This folder contains ${found.what}.`)
  const origin = (await run('git', ['-C', dir, 'remote', 'get-url', 'origin']).catch(() => '')).trim()
  const name = text(flags, 'name') ?? (await ask('Name of the app?', '--name', appNameFrom(dir)))
  const given = { image: text(flags, 'image'), gitUrl: text(flags, 'gitUrl') }
  const reported = given.image ? 'image' : given.gitUrl ? 'git' : flags.upload === true ? 'folder' : undefined
  // Without a terminal, or with `--yes`, choose the folder as the source instead of asking.
  const source =
    reported ??
    (found && (!process.stdin.isTTY || flags.yes === true)
      ? 'folder'
      : await askSource(choose, found !== undefined, origin))
  const image = source === 'image' ? (given.image ?? (await ask('Which image?', '--image'))) : undefined
  const gitUrl =
    source === 'git' ? (given.gitUrl ?? (await ask('Which repository?', '--git-url', origin || undefined))) : ''
  const port =
    wholeNumber(flags, 'port') ??
    Number(await ask('Which port does the app listen on?', '--port', String(found?.port ?? 8080)))
  const procfile = source === 'folder' ? await procfileIn(dir) : undefined
  if (procfile) terminal.line(procfileText(procfile))
  return { name, image, gitUrl, port, upload: source === 'folder', procfile }
}

function askSource(choose: typeof import('./ask.ts').choose, built: boolean, origin: string) {
  const git = { value: 'git', label: origin ? `its repository, ${origin}` : 'a git repository' }
  const image = { value: 'image', label: 'an OCI image' }
  const folder = { value: 'folder', label: 'this folder' }
  return choose(
    'What do you want to deploy?',
    '--image, --git-url or --upload',
    built ? [folder, git, image] : origin ? [git, image, folder] : [image, git, folder],
  )
}
