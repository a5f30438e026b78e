import { assetsOf } from '../node/assets.ts'
import type { Provider } from '../types.ts'
import { versionOf } from '../versions.ts'

/** `config:cache` is not among them: it would freeze the environment of the build. */
const laravelCaches = ['php artisan event:cache', 'php artisan route:cache', 'php artisan view:cache']

/** A PHP site: Laravel, or the files at the top. */
export const php: Provider = {
  name: 'php',
  detect: project => project.has('index.php') || project.has('composer.json'),
  plan: project => {
    const isLaravel = project.has('artisan')
    const assets = assetsOf(project)
    return {
      framework: isLaravel ? 'laravel' : null,
      tools: [versionOf(project, 'php'), ...assets.tools],
      install: [
        ...(project.has('composer.json')
          ? ['composer install --optimize-autoloader --no-scripts --no-interaction']
          : []),
        ...assets.install,
      ],
      build: [...assets.build, ...(isLaravel ? laravelCaches : [])],
      start: `php -S 0.0.0.0:$PORT -t ${isLaravel || project.has('public/index.php') ? 'public' : '.'}`,
      staticDir: null,
      port: null,
    }
  },
}
