/** The part of the schema of `mote.toml` for builds. */
import { Type } from 'typebox'
import { maybe, table } from './canary-schema.ts'

const variable = Type.String({
  pattern: '^[A-Za-z_][A-Za-z0-9_]{0,127}$',
  'x-mote-pattern': 'only letters, digits and underscores, and not start with a digit',
})
const variables = { maxItems: 100, uniqueItems: true, default: [] }

export const Build = table(
  {
    image: maybe(
      Type.String({
        minLength: 1,
        maxLength: 1024,
        description: 'OCI image to deploy. Nothing is built.',
        examples: ['ghcr.io/example/web:1.4'],
      }),
    ),
    repository: maybe(
      Type.String({
        minLength: 1,
        maxLength: 2048,
        description: 'Git repository to build. Each deployment builds the newest commit.',
        examples: ['https://github.com/example/web.git'],
      }),
    ),
    branch: maybe(
      Type.String({
        maxLength: 255,
        description: 'Branch to build; the default branch of the repository if absent. Only with `repository`.',
        examples: ['main'],
      }),
    ),
    submodules: maybe(
      Type.Boolean({
        default: false,
        description: 'Whether submodules on the same host are fetched. Only with `repository`.',
      }),
    ),
    root: maybe(
      Type.String({
        minLength: 1,
        maxLength: 1024,
        default: '.',
        description:
          'Folder to upload and build, relative to the file. For one app of a monorepo. Not with the others.',
        examples: ['apps/web'],
      }),
    ),
    dockerfile: maybe(
      Type.String({
        minLength: 1,
        maxLength: 1024,
        description:
          'Path of the Dockerfile, relative to the folder or the top of the repository; `Dockerfile` or `Containerfile` at its top, if there is one. Not with `image`.',
        examples: ['docker/web.Dockerfile'],
      }),
    ),
    args: maybe(
      Type.Record(variable, Type.String({ maxLength: 32_768, description: 'The value.' }), {
        additionalProperties: false,
        maxProperties: 100,
        'x-mote-names': 'letters, digits and underscores, not starting with a digit',
        default: {},
        description:
          'Build arguments of the Dockerfile; variables of the commands of other builds. Their values may be public.',
        examples: [{ VERSION: '1.4' }],
      }),
    ),
    env: maybe(
      Type.Array(variable, {
        ...variables,
        description: 'Variables of the app that the build gets like `args`. They cannot be secrets.',
        examples: [['PUBLIC_URL']],
      }),
    ),
    secrets: maybe(
      Type.Array(variable, {
        ...variables,
        description:
          'Variables of the app that the build gets as secrets: `RUN --mount=type=secret,id=<name>` of the Dockerfile, or variables of the commands of other builds.',
        examples: [['NPM_TOKEN']],
      }),
    ),
  },
  'What is deployed: an image, a repository, or (by default) the folder of the file. Give at most one of `image`, `repository` and `root`.',
)
