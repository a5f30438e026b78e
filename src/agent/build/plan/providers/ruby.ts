import type { Project } from '../project.ts'
import type { Provider } from '../types.ts'
import { versionOf } from '../versions.ts'

/** A Ruby project with a Gemfile: Rails, another Rack application, or a script. */
export const ruby: Provider = {
  name: 'ruby',
  detect: project => project.has('Gemfile'),
  plan: project => {
    const uses = (gem: string) => new RegExp(`^\\s*gem\\s+["']${gem}["']`, 'm').test(project.text('Gemfile'))
    const isRails = project.has('config/application.rb')
    const hasAssets = isRails && (uses('sprockets-rails') || uses('propshaft'))
    // The gem execjs runs JavaScript with the installed Node.
    const usesNode = project.has('package.json') || uses('execjs')
    const packs = uses('bootsnap')
    return {
      framework: isRails ? 'rails' : project.has('config.ru') ? 'rack' : null,
      debian: {
        build: ['ruby-dev'],
        run: ['bundler', 'libjemalloc2', 'ruby', ...(uses('pg') ? ['libpq5'] : [])],
      },
      tools: [versionOf(project, 'ruby'), ...(usesNode ? [versionOf(project, 'node')] : [])],
      install: [
        'bundle install',
        ...(packs ? ['bundle exec bootsnap precompile --gemfile'] : []),
        ...(project.has('package.json') ? ['npm install'] : []),
      ],
      build: [
        ...(hasAssets ? ['bundle exec rake assets:precompile'] : []),
        ...(packs && isRails ? ['bundle exec bootsnap precompile app/ lib/'] : []),
      ],
      start: startOf(project, isRails),
      staticDir: null,
      port: null,
    }
  },
}

function startOf(project: Project, isRails: boolean): string {
  if (isRails) return 'bundle exec bin/rails server -b 0.0.0.0 -p $PORT'
  if (project.has('config.ru')) return 'bundle exec rackup config.ru -o 0.0.0.0 -p $PORT'
  return `ruby ${['app.rb', 'main.rb', 'server.rb'].find(project.has) ?? 'app.rb'}`
}
