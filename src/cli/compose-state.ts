/** Shows the plan of a stack. */
import { faultText } from '../compose/faults.ts'
import type { Finding } from '../compose/reader.ts'
import type { Stack } from '../compose/stack.ts'
import { isEmpty, type Plan, planText } from '../appfile/plan.ts'
import type { StackPlan } from '../stack/plan.ts'
import type { Call } from './verb.ts'

/** Formats the plan as text, without the values of secrets. */
export function stackText(planned: StackPlan, prune: boolean): string {
  const { stack, services, left } = planned
  const removed = prune ? left : []
  const parts = services
    .filter(({ plan }) => !isEmpty(plan))
    .map(({ plan, file }) =>
      planText({ ...plan, changes: plan.changes.map(change => hidden(change, file.secrets ?? [])) }),
    )
  if (parts.length === 0 && removed.length === 0) parts.push(`No changes: the stack ${stack.name} matches the file.`)
  if (removed.length > 0) parts.push(['No longer in the file:', ...removed.map(name => `  - ${name}`)].join('\n'))
  else if (left.length > 0) parts.push(`No longer in the file, and kept without --prune: ${left.join(', ')}`)
  return [...parts, ...findingsText(stack.findings)].join('\n\n')
}

function hidden(change: Plan['changes'][number], secrets: readonly string[]): Plan['changes'][number] {
  return change.key.startsWith('env.') && secrets.includes(change.key.slice(4)) && change.to !== undefined
    ? { ...change, to: '(secret)' }
    : change
}

function findingsText(findings: readonly Finding[]): string[] {
  const lines = (level: Finding['level']) =>
    findings.filter(one => one.level === level).map(one => `  ${faultText(one)}`)
  const [cannot, differ] = [lines('unsupported'), lines('differs')]
  return [
    ...(differ.length > 0 ? [['Works differently here:', ...differ].join('\n')] : []),
    ...(cannot.length > 0 ? [['Not supported here:', ...cannot].join('\n')] : []),
  ]
}

/** Refuses a stack with unsupported parts, unless `--skip-unsupported` is given. @throws Error that lists them */
export function assertPossible(call: Call, { findings }: Stack): void {
  const faults = findings.filter(({ level }) => level === 'unsupported')
  if (faults.length === 0 || call.flags.skipUnsupported === true) return
  throw new Error(
    [
      ...faults.map(faultText),
      'Nothing was changed. Change the file, or leave these parts out with --skip-unsupported.',
    ].join('\n'),
  )
}
