/** Services that end, such as migrations, become release commands of the service that waits for them. */
import { sourceText } from '../appfile/effective.ts'
import type { Reader } from './reader.ts'
import type { Service } from './service.ts'

/** @param services in the order of their dependencies */
export function asReleases(services: readonly Service[], reader: Reader): Service[] {
  const waits = services.flatMap(service =>
    service.needs
      .filter(({ condition }) => condition === 'service_completed_successfully')
      .map(need => ({ service, need })),
  )
  const ending = new Set(waits.map(({ need }) => need.service))
  const commands = new Map<string, readonly string[]>()
  for (const name of ending) {
    const task = services.find(one => one.name === name)
    if (!task) continue
    const waiting = waits.filter(({ need }) => need.service === name).map(({ service }) => service)
    const host = waiting.find(one => isSameImage(one, task) && !commands.has(one.name))
    const command = [...(task.entrypoint ?? []), ...(task.command ?? [])]
    const at = task.at
    const field = `services.${name}`
    const refuse = (message: string) => reader.findings.push({ level: 'unsupported', at, field, message })
    if (!host)
      refuse(
        'ends before others start. That works for a service with the image of the one that waits for it, as its release command',
      )
    else if (command.length === 0) refuse('ends before others start, and needs a command: it becomes a release command')
    else if (task.app.volumes.length > 0)
      refuse('ends before others start. As a release command it cannot have volumes')
    else {
      commands.set(host.name, command)
      const own = Object.keys(task.app.env).filter(key => host.app.env[key] !== task.app.env[key])
      const note = own.length > 0 ? `, with its variables; not used: ${own.join(', ')}` : ''
      reader.findings.push({
        level: 'differs',
        at,
        field,
        message: `runs before each new version of ${host.name}, as its release command${note}`,
      })
    }
  }
  return services
    .filter(({ name }) => !ending.has(name))
    .map(service => {
      const command = commands.get(service.name)
      return command ? { ...service, app: { ...service.app, release: { command } } } : service
    })
}

const isSameImage = (one: Service, other: Service) =>
  sourceText(one.app.build) === sourceText(other.app.build) && JSON.stringify(one.build) === JSON.stringify(other.build)
