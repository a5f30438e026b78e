import { expect, test } from 'vitest'
import { BuildFault } from './fault.ts'
import { checkDockerfile, instructionsOf } from './dockerfile.ts'

const check = (text: string) => checkDockerfile('app/Dockerfile', instructionsOf(text))

test.each([
  [
    'an unknown instruction',
    'FROM x\n\nRUNN true\n',
    /^app\/Dockerfile, line 3: RUNN is no instruction\. Did you mean RUN\?$/,
  ],
  [
    'a word that is like none',
    'FROM x\nINCLUDE y',
    /^app\/Dockerfile, line 2: INCLUDE is no instruction\. Write one of/,
  ],
  [
    'the line of a continued instruction',
    'FROM x\nRUN a \\\n  b\nENTRYPOINTS c',
    /line 4: ENTRYPOINTS is no .* ENTRYPOINT\?$/,
  ],
  ['a line after a here-document', 'FROM x\nRUN <<EOF\nany word\nEOF\nCOPPY a b', /line 5: COPPY is no .* COPY\?$/],
  ['no FROM', 'ARG A\nRUN true', /line 2: RUN comes before the first FROM, where only ARG is allowed\.$/],
  ['nothing but comments', '# nothing\n\n', /line 1: The file has no instruction\. Begin with FROM/],
  ['an instruction without a value', 'FROM x\nCMD', /line 2: CMD has no value\.$/],
  ['a very long word', `FROM x\n${'z'.repeat(10_000)}`, /line 2: Z{40} is no instruction/],
])('a Dockerfile with an error is refused with the line number: %s', (_, text, message) => {
  expect(() => check(text)).toThrow(BuildFault)
  expect(() => check(text)).toThrow(message)
})

test.each([
  ['comments and empty lines within an instruction', 'FROM x\nRUN a && \\\n  # why\n\n  b\nUSER y'],
  ['here-documents', 'FROM x\nRUN <<A cat && <<-"B" cat\none\nA\ntwo\n\tB\nCOPY <<C /c\nthree\nC\nUSER y'],
  ['a here-string of a shell, and a shift', 'FROM x\nRUN cat <<<EOF; echo $((1<<2))\nUSER y'],
  ['another escape character', '# escape=`\nFROM x\nRUN a `\n  b\nUSER y'],
  ['a byte order mark, Windows line ends and lower case', '\uFEFFfrom x\r\nrun a \\\r\n  b\r\n'],
  ['an argument before FROM, and an instruction for later', 'ARG V=1\nFROM x:$V\nONBUILD RUN true'],
])('a Dockerfile with %s is accepted', (_, text) => expect(() => check(text)).not.toThrow())
