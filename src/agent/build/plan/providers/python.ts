import { debianOf, pythonNeeds } from '../debian.ts'
import { faultAt, lineAt, type Project } from '../project.ts'
import { namesStart } from '../start.ts'
import { tomlValue } from '../toml.ts'
import type { Provider, ToolName } from '../types.ts'
import { versionOf } from '../versions.ts'

interface Installer {
  readonly tool: ToolName | null
  readonly applies: (project: Project) => boolean
  readonly install: (project: Project) => readonly string[]
}

/**
 * Installers in order of precedence. requirements.txt comes first: a project that also has another lock file has
 * usually exported it for deployment.
 */
const installers: readonly Installer[] = [
  {
    tool: null,
    applies: project => project.has('requirements.txt'),
    install: () => ['pip install -r requirements.txt'],
  },
  {
    tool: 'uv',
    applies: project => project.has('uv.lock'),
    install: () => ['uv sync --locked --no-dev --no-editable'],
  },
  {
    tool: 'poetry',
    applies: project => project.has('poetry.lock') || hasTable(project, 'tool.poetry'),
    install: () => ['poetry install --no-interaction --no-ansi --only main --no-root'],
  },
  {
    tool: 'pdm',
    applies: project => project.has('pdm.lock'),
    install: () => ['pdm install --check --prod --no-editable'],
  },
  {
    tool: 'pipenv',
    applies: project => project.has('Pipfile'),
    install: project => [
      project.has('Pipfile.lock') ? 'pipenv install --deploy --ignore-pipfile' : 'pipenv install --skip-lock',
    ],
  },
  { tool: null, applies: isPackage, install: () => ['pip install .'] },
]

const hasTable = (project: Project, table: string) => project.toml('pyproject.toml').some(line => line.table === table)

/** Whether pip can install the project itself. A pyproject.toml may contain nothing but settings of tools. */
function isPackage(project: Project): boolean {
  const { toml } = project
  if (project.has('setup.py') || hasTable(project, 'build-system')) return true
  const dependencies = tomlValue(toml('pyproject.toml'), 'project', 'dependencies')?.value
  return dependencies !== undefined && dependencies !== '[]'
}

const manifests = ['requirements.txt', 'pyproject.toml', 'Pipfile', 'setup.py', 'manage.py']
const mainFiles = ['main.py', 'app.py', 'start.py', 'bot.py', 'hello.py', 'server.py']

export const python: Provider = {
  name: 'python',
  // Python scripts besides a package.json are helpers of a Node project.
  detect: project => manifests.some(project.has) || (mainFiles.some(project.has) && !project.has('package.json')),
  plan: project => {
    const installer = installers.find(one => one.applies(project))
    const tool = installer?.tool ?? null
    return {
      ...startOf(project),
      debian: debianOf(pythonNeeds, uses(project)),
      tools: [versionOf(project, 'python'), ...(tool === null ? [] : [versionOf(project, tool)])],
      install: installer?.install(project) ?? [],
      build: [],
      staticDir: null,
      port: null,
    }
  },
}

/**
 * Returns a function that tells whether a manifest names a package. Longer names with the same beginning do not match.
 */
function uses(project: Project): (name: string) => boolean {
  const manifest = ['requirements.txt', 'pyproject.toml', 'Pipfile']
    .map(project.text)
    .join('\n')
    .replaceAll(/(?:^|\s)#.*/g, '')
  return name => new RegExp(`(?:^|["'\\s])${name}\\b(?!-)`, 'im').test(manifest)
}

function startOf(project: Project): { readonly framework: string | null; readonly start: string } {
  const named = uses(project)
  const file = mainFiles.find(project.has)
  const module = file?.replace(/\.py$/, '')
  const django = project.has('manage.py') ? wsgiModule(project) : undefined
  if (django !== undefined) return { framework: 'django', start: `gunicorn --bind 0.0.0.0:$PORT ${django}` }
  const asgi = ['fastapi', 'python-fasthtml', 'starlette'].find(named)
  if (
    module !== undefined &&
    (asgi !== undefined || named('uvicorn')) &&
    (named('uvicorn') || asgi === 'python-fasthtml')
  )
    return {
      framework: asgi?.replace('python-', '') ?? null,
      start: `uvicorn ${module}:app --host 0.0.0.0 --port $PORT`,
    }
  if (module !== undefined && named('gunicorn'))
    return { framework: named('flask') ? 'flask' : null, start: `gunicorn --bind 0.0.0.0:$PORT ${module}:app` }
  if (file !== undefined) return { framework: named('flask') ? 'flask' : null, start: `python ${file}` }
  const script = project.toml('pyproject.toml').find(({ table }) => table === 'project.scripts')
  if (script) return { framework: null, start: script.key }
  const place = manifests.find(project.has) ?? 'requirements.txt'
  if (namesStart(project)) return { framework: null, start: '' }
  throw faultAt({ file: place, line: 1 }, 'The start command is unknown. Add a Procfile (web: <command>) or main.py.')
}

/** Returns the `WSGI_APPLICATION` of the settings in gunicorn's notation, such as `site.wsgi:application`. */
function wsgiModule(project: Project): string {
  for (const file of project.find(/^(?:[^/]+\/)*settings\.py$/)) {
    const text = project.text(file)
    const match = /^WSGI_APPLICATION\s*=\s*["'](.+)\.(\w+)["']/m.exec(text)
    if (match) return `${match[1]}:${match[2]}`
    throw faultAt(
      { file, line: lineAt(text, text.length) },
      'WSGI_APPLICATION is missing. Set it, or add a Procfile with a web process.',
    )
  }
  const dir = project.find(/^[^/]+\/wsgi\.py$/)[0]?.split('/')[0]
  return `${dir ?? 'config'}.wsgi:application`
}
