/** Parses and validates `mote.toml`. Keys that the schema does not have are refused. */
import { Compile } from 'typebox/schema'
import { Settings } from 'typebox/system'
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
 * Parses a file.
 * @param name name of the file, for error messages
 * @throws AppFileInvalid with line, column, field and reason of each error
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

/**
 * Returns the errors in a file, unknown keys first. These are found separately, because the schema's own errors have no
 * suggestions.
 */
function faultsOf(value: unknown): readonly FieldFault[] {
  const unknown: FieldFault[] = []
  for (const fault of unknownKeys(AppFile, value)) if (unknown.push(fault) === mostFaults) break
  const known = new Set(unknown.map(({ field }) => field))
  if (!validator().Check(value)) {
    const errors = errorsOf(value).filter(({ keyword }) => keyword !== 'additionalProperties' && keyword !== 'boolean')
    const faults = describeFaults(AppFile, errors).filter(({ field }) => !known.has(field))
    return [...unknown, ...faults.map(fault => withQuotes(fault, value))]
  }
  return unknown.length > 0 ? unknown : brokenRules(value)
}

/**
 * Maximum number of errors that are requested from the validator, several of which may have one cause. With typebox's
 * default of 8, errors at the end of a file would be missing.
 */
const mostErrors = 10 * mostFaults

function errorsOf(value: unknown) {
  const { maxErrors } = Settings.Get()
  Settings.Set({ maxErrors: mostErrors })
  try {
    return validator().Errors(value)[1]
  } finally {
    Settings.Set({ maxErrors })
  }
}

/**
 * Adds advice to the error for a variable such as `LEVEL = 3`, which is a number in TOML, but text in most other
 * formats.
 */
function withQuotes(fault: FieldFault, value: unknown): FieldFault {
  if (!/^(?:env|build\/args)\//.test(fault.field)) return fault
  const given = fault.field.split('/').reduce<unknown>((at, key) => Object(at)[key], value)
  const isPlain = typeof given === 'number' || typeof given === 'boolean'
  return fault.message === 'must be text' && isPlain ? { ...fault, message: `must be text: write "${given}"` } : fault
}

/** Converts `volumes/0/name` to `volumes[0].name`. */
const dotted = (field: string) =>
  field
    .split('/')
    .map((part, index) => (/^\d+$/.test(part) ? `[${part}]` : index === 0 ? part : `.${part}`))
    .join('')
