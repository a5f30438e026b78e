import type { Repository } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { Container, FolderUp, GitBranch, type LucideIcon } from 'lucide-react'
import { useState } from 'react'
import { api } from '../api/client.ts'
import { queries, refreshAll } from '../api/queries.ts'
import { ActionButton } from '../ui/action.tsx'
import { cx } from '../ui/cx.ts'
import { Field, Form, TextArea, type Values } from '../ui/form.tsx'
import { Card, Page } from '../ui/layout.tsx'
import { FolderField, sendFolder } from '../source/folder-field.tsx'
import { envPlaceholder, setVariables, variablesIn } from './app/env-text.ts'
import { SizeFields, sizeOf } from './app/size-fields.tsx'

type Source = 'image' | 'repository' | 'folder'

const sources = [
  { value: 'image', icon: Container, name: 'Container image', text: 'From any reachable registry.' },
  {
    value: 'repository',
    icon: GitBranch,
    name: 'Git repository',
    text: 'Rebuilt on every push.',
  },
  { value: 'folder', icon: FolderUp, name: 'Folder', text: 'From this computer, without a repository.' },
] as const satisfies readonly { value: Source; icon: LucideIcon; name: string; text: string }[]

export function NewApp() {
  const { source: asked = 'image' } = useSearch({ from: '/shell/apps/new' })
  const [source, setSource] = useState<Source>(asked)
  const repositories = useQuery({ ...queries.repositories(), enabled: source === 'repository' })
  const navigate = useNavigate()
  const create = async (values: Values) => {
    const params = await createAndDeploy(values, repositories.data)
    await navigate({ to: '/apps/$app/deployments/$job', params })
  }
  return (
    <Page title="New app" lead="Choose what to run. It is placed on a host, started, health-checked, and put online.">
      <SourceChoice source={source} choose={setSource} />
      <Card>
        <Form submit="Create and deploy" send={create}>
          <Field
            label="Name"
            name="name"
            required
            autoFocus
            mono
            maxLength={40}
            pattern="[a-z0-9]([a-z0-9\-]*[a-z0-9])?"
            title="Lowercase letters, digits and dashes"
            placeholder="my-app"
            autoComplete="off"
            spellCheck={false}
            hint="Part of its hostname: lowercase letters, digits and dashes."
          />
          {source === 'image' ? (
            <Field
              label="Image"
              name="image"
              required
              mono
              placeholder="docker.io/library/nginx:1.27"
              autoComplete="off"
              spellCheck={false}
            />
          ) : source === 'repository' ? (
            <RepositoryField known={repositories.data} />
          ) : (
            <FolderField required />
          )}
          <div className="grid gap-3 sm:grid-cols-2">
            <Field
              label="Port"
              name="port"
              type="number"
              min={1}
              max={65_535}
              placeholder="8080"
              hint="Port your app listens on (passed as $PORT)."
            />
            <Field
              label="Health check"
              name="health_check_path"
              mono
              required
              defaultValue="/"
              hint="Must return 2xx or 3xx."
            />
          </div>
          <SizeFields />
          <TextArea
            label="Environment"
            name="env"
            rows={4}
            spellCheck={false}
            placeholder={envPlaceholder}
            hint="NAME=value, one in each line, as in a .env file. Stored encrypted."
          />
        </Form>
      </Card>
    </Page>
  )
}

function SourceChoice({ source, choose }: { readonly source: Source; readonly choose: (source: Source) => void }) {
  return (
    <div role="radiogroup" aria-label="Source" className="mb-4 grid gap-3 sm:grid-cols-3">
      {sources.map(({ value, icon: Icon, name, text }) => (
        <button
          key={value}
          type="button"
          role="radio"
          aria-checked={source === value}
          onClick={() => choose(value)}
          className={cx(
            'flex items-start gap-3 rounded-lg border bg-surface p-4 text-left transition-colors',
            source === value ? 'border-accent ring-1 ring-accent' : 'border-line hover:border-line-strong',
          )}
        >
          <Icon aria-hidden="true" size={18} className="mt-0.5 text-accent-text" />
          <span>
            <span className="block font-semibold">{name}</span>
            <span className="block text-muted">{text}</span>
          </span>
        </button>
      ))}
    </div>
  )
}

/** Creates and deploys the app. Returns the route parameters of the deployment page. */
async function createAndDeploy(values: Values, repositories: readonly Repository[] | undefined) {
  const name = values.text('name')
  const variables = variablesIn(values.text('env'))
  await api.createApp({
    body: {
      name,
      ...sourceOf(values.text('git_url'), repositories),
      port: values.number('port'),
      health_check_path: values.text('health_check_path'),
    },
  })
  await refreshAll('apps')
  try {
    await setVariables(name, variables, true)
    const { job_id } = await api.deployApp({
      app_name: name,
      body: {
        image: values.optional('image'),
        source: await sendFolder(name, values.files('folder')),
        ...sizeOf(values),
      },
    })
    return { app: name, job: job_id }
  } catch (cause) {
    // The source or a variable is invalid, not the app. Delete the app, so that a second attempt can create it.
    await api.deleteApp({ app_name: name })
    throw cause
  }
}

/**
 * A button that leads to the code host (such as GitHub), where the owner selects the repositories to grant access to.
 */
function Connect() {
  return (
    <ActionButton
      size="small"
      act={async () => {
        const { url } = await api.installScm()
        location.assign(url)
      }}
    >
      <GitBranch aria-hidden="true" size={13} /> Connect repositories
    </ActionButton>
  )
}

/** The source fields of the request: a connected repository is read through the integration, others by their URL. */
function sourceOf(git_url: string, known: readonly Repository[] = []) {
  const connected = known.find(repository => repository.clone_url === git_url)
  if (!connected) return { git_url }
  return {
    git_url,
    scm_installation_id: connected.installation_id,
    scm_repo_id: connected.id,
    scm_repo_full_name: connected.full_name,
  }
}

/** A field that suggests the repositories that the integration can read, and accepts any URL. */
function RepositoryField({ known = [] }: { readonly known: readonly Repository[] | undefined }) {
  return (
    <>
      <Field
        label="Repository"
        name="git_url"
        required
        mono
        list="repositories"
        placeholder="https://host/owner/repo.git"
        autoComplete="off"
        spellCheck={false}
        hint={
          known.length > 0
            ? 'One of the connected repositories, or the URL of a public one.'
            : 'The URL of a public repository.'
        }
      />
      <Connect />
      <datalist id="repositories">
        {known.map(repository => (
          <option key={repository.id} value={repository.clone_url}>
            {repository.full_name}
          </option>
        ))}
      </datalist>
    </>
  )
}
