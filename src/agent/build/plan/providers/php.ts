import { phpPackages } from '../debian.ts'
import { assetsOf } from '../node/assets.ts'
import { objectOr, type Project } from '../project.ts'
import type { Provider } from '../types.ts'
import { versionOf } from '../versions.ts'

/** Composer runs scripts of packages with the extensions that the site has when it runs. */
const composer = ['composer', 'unzip', ...phpPackages]

/** `config:cache` is not among them: it would freeze the environment of the build. */
const laravelCaches = ['php artisan event:cache', 'php artisan route:cache', 'php artisan view:cache']

/** Whether Composer has something to do: platform packages such as `php` and `ext-gd` have no vendor. */
function hasPackages(project: Project): boolean {
  const { require, autoload } = project.json('composer.json')
  const names = Object.keys(objectOr(require))
  return names.some(name => name.includes('/')) || Object.keys(objectOr(autoload)).length > 0
}

/** A PHP site: Laravel, or the files at the top. */
export const php: Provider = {
  name: 'php',
  detect: project => project.has('index.php') || project.has('composer.json'),
  plan: project => {
    const isLaravel = project.has('artisan')
    const assets = assetsOf(project)
    return {
      framework: isLaravel ? 'laravel' : null,
      debian: { build: hasPackages(project) ? composer : [], run: [] },
      tools: [versionOf(project, 'php'), ...assets.tools],
      install: [
        ...(hasPackages(project) ? ['composer install --optimize-autoloader --no-scripts --no-interaction'] : []),
        ...assets.install,
      ],
      build: [...assets.build, ...(isLaravel ? laravelCaches : [])],
      start: `php -S 0.0.0.0:$PORT -t ${isLaravel || project.has('public/index.php') ? 'public' : '.'}`,
      ...(assets.node ? { node: assets.node } : {}),
      staticDir: null,
      port: null,
    }
  },
}
