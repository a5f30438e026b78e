/** Plans the build of a project from its files, without running any of them. */
import { BuildFault } from '../fault.ts'
import { withToolsBeside } from './beside.ts'
import { ignoredBy } from './dockerignore.ts'
import { faultAt, openProject, type ProjectFiles } from './project.ts'
import { cpp } from './providers/cpp.ts'
import { deno } from './providers/deno.ts'
import { dockerfile, dockerfilePlan } from './providers/dockerfile.ts'
import { dotnet } from './providers/dotnet.ts'
import { elixir } from './providers/elixir.ts'
import { gleam } from './providers/gleam.ts'
import { go } from './providers/go.ts'
import { java } from './providers/java.ts'
import { node } from './providers/node.ts'
import { php } from './providers/php.ts'
import { python } from './providers/python.ts'
import { ruby } from './providers/ruby.ts'
import { rust } from './providers/rust.ts'
import { shell } from './providers/shell.ts'
import { staticSite } from './providers/static.ts'
import { railpackProvider, withRailpackFile } from './railpack.ts'
import { startedBy, unstartedNote, webProcess } from './start.ts'
import type { BuildPlan, Provider } from './types.ts'

/**
 * The first provider that detects the project wins. Server languages come before Node, which may only build their
 * assets.
 */
export const providers: readonly Provider[] = [
  dockerfile,
  php,
  go,
  java,
  rust,
  ruby,
  elixir,
  python,
  deno,
  dotnet,
  node,
  gleam,
  cpp,
  staticSite,
  shell,
]

/** Manifests that only pnpm accepts instead of package.json. */
const otherManifests = ['package.json5', 'package.yaml'] as const

/**
 * @param root the project's directory in a monorepo; empty for the top
 * @param given path of the Dockerfile to use; empty to detect the provider
 * @throws BuildFault with advice on how to make the project buildable
 */
export function planProject(files: ProjectFiles, root = '', given = ''): BuildPlan {
  if (root !== '' && ![...files.paths].some(path => path.startsWith(`${root}/`)))
    throw new BuildFault(`The source has no directory "${root}". Set the build's root to the directory of the app.`)
  const project = openProject(files, root)
  if (given !== '') {
    if (!project.has(given))
      throw new BuildFault(`The source has no file "${given}". Correct the path of the Dockerfile (build.dockerfile).`)
    return { provider: dockerfile.name, ...dockerfilePlan(project, given) }
  }
  const named = railpackProvider(project)
  const provider = providers.find(one => (named === undefined ? one.detect(project) : one.name === named))
  const manifest = otherManifests.find(project.has)
  if (manifest !== undefined && provider !== dockerfile && !project.has('package.json'))
    throw faultAt({ file: manifest, line: 1 }, 'Builds only read package.json. Convert the file, or add a Dockerfile.')
  if (!provider)
    throw new BuildFault(
      'The repository has no known build method. Add a Dockerfile, or one of: package.json (Node), requirements.txt or ' +
        'pyproject.toml (Python), go.mod (Go), index.html (a static site).',
    )
  // buildah itself applies `.dockerignore`.
  const ignored = provider === dockerfile ? '' : ignoredBy(project)
  const plan = { provider: provider.name, ...provider.plan(project), ...(ignored === '' ? {} : { ignored }) }
  if (provider === staticSite || provider === dockerfile) return plan
  const started = startedBy(plan, webProcess(project.text('Procfile')))
  return withRailpackFile(project, withToolsBeside(project, { ...started, note: unstartedNote(project) }))
}
