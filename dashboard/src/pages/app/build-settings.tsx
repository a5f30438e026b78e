import type { App } from '@mote/client'
import { Field, TextArea } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { variablesIn } from './env-text.ts'
import { SettingsForm } from './settings-form.tsx'

const namesIn = (text: string) => text.split(/[\s,]+/).filter(name => name !== '')

/** A line of a `.env` file; quotes a value that a parser would otherwise change. */
const lineOf = ([name, value]: readonly [string, string]) =>
  /^[\w./:@+,-]*$/.test(value) ? `${name}=${value}` : `${name}=${JSON.stringify(value).replaceAll('$', String.raw`\$`)}`

/** Settings for what a build gets besides the source: Dockerfile, arguments, variables and secrets. */
export function BuildSettings({ app }: { readonly app: App }) {
  const { dockerfile, args, env, secrets } = app.build
  return (
    <Card title="Build" lead="What a build gets besides the source. Takes effect with the next build.">
      <SettingsForm
        app={app}
        changes={values => {
          const entries = variablesIn(values.text('build.args'))
          return {
            build: {
              dockerfile: values.text('build.dockerfile'),
              args: Object.fromEntries(entries.map(({ name, value }) => [name, value])),
              env: namesIn(values.text('build.env')),
              secrets: namesIn(values.text('build.secrets')),
            },
          }
        }}
      >
        <Field
          label="Dockerfile"
          name="build.dockerfile"
          mono
          defaultValue={dockerfile}
          placeholder="docker/web.Dockerfile"
          hint="Path of the Dockerfile in the source. Empty: the one in the top folder, if there is one."
        />
        <TextArea
          label="Arguments"
          name="build.args"
          rows={3}
          spellCheck={false}
          defaultValue={Object.entries(args).map(lineOf).join('\n')}
          placeholder="VERSION=1.4"
          hint="Arguments of the Dockerfile (ARG); without a Dockerfile, variables of the build commands. Anyone with the image can read them."
        />
        <Field
          label="Variables for builds"
          name="build.env"
          mono
          defaultValue={env.join(' ')}
          placeholder="PUBLIC_URL"
          hint="Names of this app's variables that builds get as additional arguments. They cannot be secrets."
        />
        <Field
          label="Secrets for builds"
          name="build.secrets"
          mono
          defaultValue={secrets.join(' ')}
          placeholder="NPM_TOKEN"
          hint="Names of this app's variables that a Dockerfile can mount: RUN --mount=type=secret,id=NPM_TOKEN."
        />
      </SettingsForm>
    </Card>
  )
}
