/** Parses the file of a VM (`programsPath`) that lists additional programs to run next to its main program. */
import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { maxProgramArguments, maxPrograms, maxProgramVariables, programsPath } from '../../lib/vm-programs.ts'
import { StepError } from '../base/step-error.ts'
import type { GivenFile, GuestLink, GuestProgram } from './config-disk.ts'

const Name = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$' })
const Words = Type.Array(Type.String({ maxLength: 8192 }), { maxItems: maxProgramArguments })
const Path = Type.String({ pattern: '^(/[^/\\0]+)+$', maxLength: 512 })
const Program = Type.Object(
  {
    name: Name,
    command: Type.Optional(Words),
    arguments: Type.Optional(Words),
    environment: Type.Optional(
      Type.Record(Type.String({ pattern: '^[^=\\0]{1,128}$' }), Type.Union([Type.String(), Type.Null()])),
    ),
    restart: Type.Optional(Type.Union([Type.Literal('always'), Type.Literal('on-failure'), Type.Literal('never')])),
    before: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false },
)
const Link = Type.Object({ path: Path, to: Path }, { additionalProperties: false })
const Programs = Type.Object(
  {
    programs: Type.Array(Program, { maxItems: maxPrograms }),
    names: Type.Optional(Type.Array(Name, { maxItems: 16 })),
    links: Type.Optional(Type.Array(Link, { maxItems: 16 })),
  },
  { additionalProperties: false },
)

export interface ProgramBase {
  /** Entrypoint and command of the VM's image. */
  readonly argv: { readonly entrypoint: readonly string[]; readonly cmd: readonly string[] }
  /** Environment of the VM's main program, which the additional programs inherit. */
  readonly env: Readonly<Record<string, string>>
}

export interface Described {
  readonly programs: readonly GuestProgram[]
  readonly aliases: readonly string[]
  readonly links: readonly GuestLink[]
}

/**
 * Finds the file at `programsPath` among the files of a VM, and returns the additional programs, hostnames and symbolic
 * links that it describes.
 * @returns undefined if the VM has no such file
 * @throws StepError if the file is not valid
 */
export function programsOf(files: readonly GivenFile[], { argv, env }: ProgramBase): Described | undefined {
  const file = files.find(({ path }) => path === programsPath)
  if (!file) return undefined
  const { programs, names = [], links = [] } = parsed(file)
  return {
    aliases: names,
    links,
    programs: programs.map(
      ({ name, command, arguments: given, environment = {}, restart = 'always', before = false }) => {
        const words = command ? [...command, ...(given ?? [])] : [...argv.entrypoint, ...(given ?? argv.cmd)]
        if (words.length === 0) throw invalid(`the program ${name} needs a command, because the image has none`)
        if (words.length > maxProgramArguments)
          throw invalid(`the program ${name} exceeds the limit of ${maxProgramArguments} arguments`)
        const all = Object.entries({ ...env, ...environment }).filter((one): one is [string, string] => one[1] !== null)
        if (all.length > maxProgramVariables)
          throw invalid(`the program ${name} exceeds the limit of ${maxProgramVariables} variables`)
        return { name, argv: words, env: Object.fromEntries(all), restart, before }
      },
    ),
  }
}

function parsed({ data }: GivenFile): Static<typeof Programs> {
  const form = 'it must be {"programs": [{"name": ..., "command": [...]}]}'
  let value: unknown
  try {
    value = JSON.parse(Buffer.from(data, 'base64').toString())
  } catch (cause) {
    throw invalid(form, cause)
  }
  assertFew(value)
  if (!Value.Check(Programs, value)) throw invalid(form)
  return value
}

/**
 * Limits the numbers of programs and variables. Runs before the schema check, which would block the agent's event loop
 * if a file had a million of them.
 */
function assertFew(value: unknown): void {
  const programs: unknown = Object(value).programs
  if (!Array.isArray(programs)) return
  if (programs.length > maxPrograms) throw invalid(`it may have at most ${maxPrograms} programs`)
  for (const program of programs)
    if (Object.keys(Object(Object(program).environment)).length > maxProgramVariables)
      throw invalid(`a program may have at most ${maxProgramVariables} variables`)
}

const invalid = (what: string, cause?: unknown) =>
  new StepError('programs_invalid', `the file ${programsPath} is not valid: ${what}`, { cause })
