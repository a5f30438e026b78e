/** The parts of package.json that decide a plan. */
import { objectOr, type Project, stringOr } from '../project.ts'

export interface NodePackage {
  readonly script: (name: string) => string | undefined
  readonly uses: (dependency: string) => boolean
  readonly hasDependencies: boolean
  readonly mayHaveDevDependencies: boolean
  readonly main: string | undefined
}

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
    // Each workspace has its own package.json, which is not read.
    mayHaveDevDependencies:
      Object.keys(objectOr(parsed['devDependencies'])).length > 0 || parsed['workspaces'] !== undefined,
    main: stringOr(parsed['main'])?.replace(/^\.\//, ''),
  }
}
