/** Recipes for languages whose toolchain comes from Debian, which has only one version of each. */
import { debianScripts } from './debian-scripts.ts'
import { mavenScript } from './maven.ts'
import { debianReplaces, debianTools } from './plan/debian.ts'
import { faultAt } from './plan/project.ts'
import type { BuildPlan } from './plan/types.ts'
import {
  debianPath,
  layer,
  nodeArchives,
  nodeEnv,
  owner,
  type Planner,
  startCommand,
  stepsOf,
  toolOf,
} from './recipe-parts.ts'

type Debians = 'elixir' | 'erlang' | 'java' | 'php' | 'ruby'
const nouns = { elixir: 'Elixir', erlang: 'Erlang', java: 'Java', php: 'PHP', ruby: 'Ruby' } as const satisfies Record<
  Debians,
  string
>

/** @throws BuildFault if the project names a version that Debian's cannot replace */
function checkVersion(plan: BuildPlan, tool: Debians): void {
  const wanted = toolOf(plan, [tool])
  const ours = debianTools.get(tool)?.version ?? ''
  if (!wanted?.from || debianReplaces(tool, wanted.version)) return
  throw faultAt(
    wanted.from,
    `Builds have ${nouns[tool]} ${ours}, not ${wanted.version}. Change the line, or add a Dockerfile.`,
  )
}

const variables = [`PATH=${debianPath}`, 'PORT=8080', 'HOME=/tmp'] as const

const php: Planner = (plan, start) => {
  if (start === null) return null
  checkVersion(plan, 'php')
  return {
    builder: 'builder',
    script: debianScripts.php,
    env: plan.node ? nodeEnv(plan, plan.node) : stepsOf(plan),
    toolchain: plan.node ? nodeArchives(plan.node) : [],
    output: layer('php', { ...owner, Env: [...variables], Cmd: startCommand(start) }),
  }
}

const java: Planner = (plan, start) => {
  if (start === null) return null
  if (plan.gradle)
    throw faultAt(
      plan.gradle,
      'Builds have no Gradle. Add a Dockerfile that builds with an image of Gradle and starts the jar, or a pom.xml: builds have Maven.',
    )
  checkVersion(plan, 'java')
  // Spring reads the port from the variable SERVER_PORT.
  const line = plan.framework === 'spring' ? `export SERVER_PORT="$PORT"; exec ${start}` : start
  return {
    builder: 'maven',
    script: mavenScript,
    env: stepsOf(plan),
    output: layer('java', { ...owner, Env: [...variables], Cmd: startCommand(line) }),
  }
}

const ruby: Planner = (plan, start) => {
  if (start === null) return null
  checkVersion(plan, 'ruby')
  const bundle = ['BUNDLE_PATH=/app/.mote/bundle', 'BUNDLE_WITHOUT=development:test', 'BUNDLE_VERSION=system']
  const rails = ['RAILS_ENV=production', 'RACK_ENV=production', 'RAILS_LOG_TO_STDOUT=1', 'RAILS_SERVE_STATIC_FILES=1']
  // glibc's allocator fragments memory with Ruby's threads. Rails preloads jemalloc in its own images, too.
  const Env = [...variables, ...bundle, ...rails, 'LD_PRELOAD=libjemalloc.so.2']
  return {
    builder: 'builder',
    script: debianScripts.ruby,
    env: plan.node ? nodeEnv(plan, plan.node) : stepsOf(plan),
    toolchain: plan.node ? nodeArchives(plan.node) : [],
    // The base image contains Node, which execjs and webpackers need.
    output: layer('node', { ...owner, Env, Cmd: startCommand(start) }),
  }
}

const elixir: Planner = (plan, start) => {
  if (start === null) return null
  checkVersion(plan, 'elixir')
  checkVersion(plan, 'erlang')
  // A Phoenix release only starts its server if PHX_SERVER is set.
  const Env = [...variables, 'LANG=C.UTF-8', 'MIX_ENV=prod', 'PHX_SERVER=true', 'RELEASE_DISTRIBUTION=none']
  return {
    builder: 'builder',
    script: debianScripts.elixir,
    env: stepsOf(plan),
    output: layer('node', { ...owner, Env, Cmd: startCommand(start) }),
  }
}

export const debianRecipes = { php, java, ruby, elixir } as const
