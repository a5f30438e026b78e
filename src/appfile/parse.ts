/** Parses and validates `mote.toml`. Nothing that the schema does not name is accepted. */
import { Compile } from 'typebox/schema'
import { describeFaults, type FieldFault } from '../lib/faults.ts'
import { lazily } from '../lib/once.ts'
import { keyPositions, positionOf } from './locate.ts'
import { appFileName } from './name.ts'
import { brokenRules } from './rules.ts'
import { AppFile } from './schema.ts'
import { AppFileInvalid, readToml } from './toml.ts'
import { unknownKeys } from './unknown-keys.ts'

const validator = lazily(() => Compile(AppFile))

/**
 * @param name of the file, for messages
 * @throws AppFileInvalid with line, column, field and reason of each fault
 */
export function parseAppFile(text: string, name: string = appFileName): AppFile {
  const value = readToml(text, name)
  const faults = faultsOf(value)
  if (faults.length === 0) return value as AppFile
  const positions = keyPositions(text)
  throw new AppFileInvalid(
    faults
      .slice(0, mostFaults)
      .map(({ field, message }) => ({ ...positionOf(positions, field), field: dotted(field), message }))
      .toSorted((a, b) => a.line - b.line),
    name,
  )
}

const mostFaults = 20

/** Unknown keys first: the schema would report them without a suggestion. */
function faultsOf(value: unknown): readonly FieldFault[] {
  const unknown = unknownKeys(AppFile, value)
  const known = new Set(unknown.map(({ field }) => field))
  if (!validator().Check(value)) {
    const errors = validator()
      .Errors(value)[1]
      .filter(({ keyword }) => keyword !== 'additionalProperties' && keyword !== 'boolean')
    return [...unknown, ...describeFaults(AppFile, errors).filter(({ field }) => !known.has(field))]
  }
  return unknown.length > 0 ? unknown : brokenRules(value)
}

/** `volumes/0/name` as `volumes[0].name`. */
const dotted = (field: string) =>
  field
    .split('/')
    .map((part, index) => (/^\d+$/.test(part) ? `[${part}]` : index === 0 ? part : `.${part}`))
    .join('')
