import { phpPackages } from '../debian.ts'
import { assetsOf } from '../node/assets.ts'
import { objectOr, type Project } from '../project.ts'
import type { Provider } from '../types.ts'
import { versionOf } from '../versions.ts'

/**
 * Debian packages for installing dependencies. Composer runs scripts of packages, which need the same extensions as the
 * site.
 */
const composer = ['composer', 'unzip', ...phpPackages]

/**
 * Commands that fill Laravel's caches. `config:cache` is missing because it would freeze the build's environment
 * variables.
 */
const laravelCaches = ['php artisan event:cache', 'php artisan route:cache', 'php artisan view:cache']

/**
 * Whether Composer has anything to install. Platform packages such as `php` and `ext-gd` have no `/` in their names.
 */
function hasPackages(project: Project): boolean {
  const { require, autoload } = project.json('composer.json')
  const names = Object.keys(objectOr(require))
  return names.some(name => name.includes('/')) || Object.keys(objectOr(autoload)).length > 0
}

/** A PHP site: Laravel, or the PHP files at the top or in `public`. */
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
