/** The parts of package.json that a build plan depends on. */
import { objectOr, type Project, stringOr } from '../project.ts'

export interface NodePackage {
  readonly script: (name: string) => string | undefined
  readonly uses: (dependency: string) => boolean
  readonly hasDependencies: boolean
  /** Whether installing the dependencies also runs scripts of the project. */
  readonly installsMore: boolean
  readonly mayHaveDevDependencies: boolean
  readonly main: string | undefined
}

const installScripts = ['preinstall', 'install', 'postinstall', 'prepare']

export function readPackage(project: Project): NodePackage {
  const parsed = project.json('package.json')
  const scripts = objectOr(parsed['scripts'])
  const dependencies = {
    ...objectOr(parsed['dependencies']),
    ...objectOr(parsed['devDependencies']),
    ...objectOr(parsed['optionalDependencies']),
  }
  return {
    script: name => stringOr(scripts[name]),
    uses: dependency => Object.hasOwn(dependencies, dependency),
    hasDependencies: Object.keys(dependencies).length > 0 || parsed['workspaces'] !== undefined,
    installsMore: installScripts.some(name => stringOr(scripts[name]) !== undefined),
    // Also true for a project with workspaces, whose development dependencies may be in a package.json that is not
    // read.
    mayHaveDevDependencies:
      Object.keys(objectOr(parsed['devDependencies'])).length > 0 || parsed['workspaces'] !== undefined,
    main: stringOr(parsed['main'])?.replace(/^\.\//, ''),
  }
}
