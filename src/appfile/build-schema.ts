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
        description: 'OCI image to deploy, without a build.',
        examples: ['ghcr.io/example/web:1.4'],
      }),
    ),
    repository: maybe(
      Type.String({
        minLength: 1,
        maxLength: 2048,
        description: 'URL of a Git repository to build. Each deployment builds its newest commit.',
        examples: ['https://github.com/example/web.git'],
      }),
    ),
    branch: maybe(
      Type.String({
        maxLength: 255,
        description: 'Branch to build. Default: the default branch of the repository. Only with `repository`.',
        examples: ['main'],
      }),
    ),
    submodules: maybe(
      Type.Boolean({
        default: false,
        description: 'Whether builds also fetch Git submodules that are on the same Git host. Only with `repository`.',
      }),
    ),
    root: maybe(
      Type.String({
        minLength: 1,
        maxLength: 1024,
        default: '.',
        description:
          'Folder to upload and build, relative to `mote.toml`; for example, one app in a monorepo. Not together with `image` or `repository`.',
        examples: ['apps/web'],
      }),
    ),
    dockerfile: maybe(
      Type.String({
        minLength: 1,
        maxLength: 1024,
        description:
          'Path of the Dockerfile, relative to the uploaded folder or the top of the repository. Default: `Dockerfile` or `Containerfile` there, if one exists. Not together with `image`.',
        examples: ['docker/web.Dockerfile'],
      }),
    ),
    args: maybe(
      Type.Record(variable, Type.String({ maxLength: 32_768, description: 'Value of the variable.' }), {
        additionalProperties: false,
        maxProperties: 100,
        'x-mote-names': 'letters, digits and underscores, not starting with a digit',
        default: {},
        description:
          'Build arguments for the Dockerfile, or, in builds without a Dockerfile, environment variables of the build commands. Use them for public values only.',
        examples: [{ VERSION: '1.4' }],
      }),
    ),
    env: maybe(
      Type.Array(variable, {
        ...variables,
        description: 'Names of app variables that the build gets in the same way as `args`. Secrets are not allowed.',
        examples: [['PUBLIC_URL']],
      }),
    ),
    secrets: maybe(
      Type.Array(variable, {
        ...variables,
        description:
          'Names of app variables that the build gets as secrets: with `RUN --mount=type=secret,id=<name>` in the Dockerfile, or, in builds without a Dockerfile, as environment variables of the build commands.',
        examples: [['NPM_TOKEN']],
      }),
    ),
  },
  'What is deployed: an image, a repository, or, by default, the folder that contains `mote.toml`. At most one of `image`, `repository` and `root` is allowed.',
)
