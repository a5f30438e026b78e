/** The part of the schema of `mote.toml` for files in VMs. */
import { Type } from 'typebox'
import { maybe, table } from './canary-schema.ts'

export const GivenFiles = Type.Array(
  table(
    {
      path: Type.String({
        pattern: '^/',
        'x-mote-pattern': 'a "/" at the start',
        maxLength: 512,
        description: 'Absolute path in the VM. A file of the image at this path is replaced.',
        examples: ['/etc/web/web.conf'],
      }),
      source: maybe(
        Type.String({
          minLength: 1,
          maxLength: 1024,
          description:
            'Path of the file with the content, relative to `mote.toml`. Either `source` or `secret` is required.',
          examples: ['deploy/web.conf'],
        }),
      ),
      secret: maybe(
        Type.String({
          pattern: '^[A-Za-z_][A-Za-z0-9_.-]{0,127}$',
          'x-mote-pattern':
            'only letters, digits, underscores, dots and dashes, and start with a letter or an underscore',
          description: "Name of a variable of the app, whose value becomes the file's content.",
          examples: ['TLS_KEY'],
        }),
      ),
      mode: maybe(
        Type.String({
          pattern: '^0?[0-7]{3}$',
          'x-mote-pattern': 'three octal digits, such as 0400',
          default: '0644',
          description: 'Permissions of the file, in octal digits. The file belongs to the user that runs the program.',
          examples: ['0400'],
        }),
      ),
    },
    'A file in each VM.',
  ),
  {
    maxItems: 64,
    default: [],
    description:
      'Files that are written to VMs before their program starts, at most 512 KiB in total. A file that is removed from `mote.toml` is removed from the app.',
  },
)
