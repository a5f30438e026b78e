/** Maps `build` of a service to a build source: a folder to upload, or a repository. */
import { dirname, isAbsolute, join, normalize } from '../lib/posix-path.ts'
import { anyInputs, type BuildInputs, type BuildSource } from '../appfile/effective.ts'
import { type Field, member, members, pairs, text, unsupported } from './reader.ts'

export interface BuildOptions {
  /** The build's folder, relative to the current directory. */
  readonly context: string
  /** Path of the Dockerfile, relative to `context`. */
  readonly dockerfile: string | undefined
  readonly inline: string | undefined
  readonly target: string | undefined
  readonly args: Readonly<Record<string, string>>
}

const impossible: Readonly<Record<string, string>> = {
  secrets: 'is not supported: builds of compose files get no secrets',
  ssh: 'is not supported: builds of compose files get no SSH keys',
  additional_contexts: 'is not supported: a build gets only the folder "context"',
  entitlements: 'is not supported',
}

export interface ServiceBuild {
  readonly source: BuildSource
  readonly options: BuildOptions
  /**
   * Build settings of the app (Dockerfile, arguments, secrets). Only used for a repository, because for a folder, the
   * Dockerfile is rewritten before the upload.
   */
  readonly inputs?: BuildInputs | undefined
}

/** Returns the build of a service; undefined for a service without `build`. */
export function buildOf(service: Field): ServiceBuild | undefined {
  const build = member(service, 'build')
  if (!build) return undefined
  const isText = build.tree.kind === 'scalar'
  for (const [key, one] of isText ? [] : members(build)) {
    const reason = Object.hasOwn(impossible, key) ? impossible[key] : undefined
    if (reason !== undefined) unsupported(one, reason)
  }
  const given = isText ? build : member(build, 'context')
  const context = text(given) ?? '.'
  const options: BuildOptions = {
    context: isAbsolute(context) ? context : join(dirname((given ?? build).tree.at.file), context),
    dockerfile: isText ? undefined : text(member(build, 'dockerfile')),
    inline: isText ? undefined : text(member(build, 'dockerfile_inline')),
    target: isText ? undefined : text(member(build, 'target')),
    args: argumentsOf(isText ? undefined : member(build, 'args')),
  }
  const dockerfile = normalize(options.dockerfile ?? '')
  if (isAbsolute(dockerfile) || dockerfile.startsWith('..'))
    unsupported(
      member(build, 'dockerfile') ?? build,
      'must be in the folder of the build, which is all that is uploaded',
    )
  if (!/^([a-z][a-z0-9+.-]*:\/\/|git@)/i.test(context)) return { source: { root: options.context }, options }
  const inputs = anyInputs({
    dockerfile: options.dockerfile ? dockerfile : '',
    args: options.args,
    env: [],
    secrets: [],
  })
  return { source: repositoryOf(given ?? build, context, options), options, inputs }
}

function repositoryOf(field: Field, context: string, { inline, target }: BuildOptions): BuildSource {
  const [repository = '', fragment = ''] = context.split('#', 2)
  const [branch = '', folder = ''] = fragment.split(':', 2)
  if (folder !== '' || inline || target)
    unsupported(
      field,
      'is not supported: a repository is built from its top, with all stages of its Dockerfile. Clone it, and name the folder',
    )
  return { repository, branch, submodules: false }
}

/** Returns the build arguments. An argument without a value is left out. */
const argumentsOf = (field: Field | undefined): Record<string, string> =>
  Object.fromEntries([...pairs(field)].flatMap(([name, { value }]) => (value === null ? [] : [[name, value]])))
