/**
 * Maps services that complete, such as migrations, to release commands of a service that waits for them, or to apps
 * that are not restarted.
 */
import { sourceText } from '../appfile/effective.ts'
import type { Reader } from './reader.ts'
import type { Service } from './service.ts'

/**
 * Returns the services without those that became release commands.
 * @param services each one after those on which it depends
 */
export function asReleases(services: readonly Service[], reader: Reader): Service[] {
  const waits = services.flatMap(service =>
    service.needs
      .filter(({ condition }) => condition === 'service_completed_successfully')
      .map(need => ({ service, need })),
  )
  const ending = new Set(waits.map(({ need }) => need.service))
  const commands = new Map<string, readonly string[]>()
  const released = new Set<string>()
  const tasks = new Set<string>()
  for (const name of ending) {
    const task = services.find(one => one.name === name)
    if (!task) continue
    const waiting = waits.filter(({ need }) => need.service === name).map(({ service }) => service)
    const host = waiting.find(one => isSameImage(one, task) && !commands.has(one.name))
    const command = [...(task.entrypoint ?? []), ...(task.command ?? [])]
    const note = (message: string) =>
      void reader.findings.push({ level: 'differs', at: task.at, field: `services.${name}`, message })
    if (host && command.length > 0 && task.app.volumes.length === 0) {
      commands.set(host.name, command)
      released.add(name)
      const own = Object.keys(task.app.env).filter(key => host.app.env[key] !== task.app.env[key])
      const unused = own.length > 0 ? `, with its variables; not used: ${own.join(', ')}` : ''
      note(`runs before each new version of ${host.name}, as its release command${unused}`)
    } else {
      tasks.add(name)
      const before = waiting.map(one => one.name).join(', ')
      note(`runs to its end before ${before}, in a VM of its own, and again only when it has changed`)
    }
  }
  return services
    .filter(({ name }) => !released.has(name))
    .map(service => {
      const command = commands.get(service.name)
      if (tasks.has(service.name)) return asTask(service)
      return command ? { ...service, app: { ...service.app, release: { command } } } : service
    })
}

/**
 * Makes the service a worker that is not restarted after it has completed, unless its restart policy restarts it after
 * failures.
 */
function asTask(service: Service): Service {
  const { app } = service
  const { web } = app.processes
  return {
    ...service,
    isTask: true,
    app: {
      ...app,
      kind: 'worker',
      processes: { web: { ...web, port: 8080, scale_to_zero: false, replicas: 1, restart: web.restart ?? 'never' } },
    },
  }
}

export const isSameImage = (one: Service, other: Service) =>
  sourceText(one.app.build) === sourceText(other.app.build) && JSON.stringify(one.build) === JSON.stringify(other.build)
