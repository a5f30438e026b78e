import type { AppFile, PutAppFileRequest } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { FileCog } from 'lucide-react'
import { api } from '../../api/client.ts'
import { queries, refreshAll } from '../../api/queries.ts'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Check, Field, NameField, TextArea } from '../../ui/form.tsx'
import { Mono } from '../../ui/layout.tsx'
import { ListCard } from '../../ui/listing.tsx'
import { AddButton, DestroyIcon } from '../../ui/row-actions.tsx'

/** The files that virtual machines of the app get before the program starts. */
export function GivenFiles({ app_name }: { readonly app_name: string }) {
  const files = useQuery(queries.appFiles(app_name))
  return (
    <ListCard
      title="Files"
      lead="Virtual machines get these files before the program starts. Changes take effect with the next deploy."
      create={<SetFile app_name={app_name} />}
      query={files}
      nothing={{
        icon: FileCog,
        title: 'No files',
        text: 'Configuration files and keys for your app, such as /etc/web/web.conf.',
      }}
      label="Files"
      keyOf={one => one.path}
      columns={[
        { title: 'Path', cell: one => <Mono className="font-medium">{one.path}</Mono> },
        { title: 'Mode', cell: one => <Mono>{one.mode}</Mono> },
        { title: 'Content', cell: contentOf },
        { title: 'Changed', at: one => one.updated_at },
      ]}
      actionsOf={one => (
        <>
          <SetFile app_name={app_name} file={one} />
          <DestroyIcon
            name={one.path}
            what="file"
            verb="Remove"
            consequence={`The next deployment of ${app_name} no longer has it. Running deployments keep it.`}
            send={async () => {
              await api.deleteAppFile({ app_name, query: { path: one.path } })
              await refreshAll('app-files')
            }}
          />
        </>
      )}
    />
  )
}

function contentOf({ variable, secret, size_bytes }: AppFile) {
  if (variable !== null) return <>value of {variable}</>
  return secret ? <span className="text-faint">••••••••</span> : <>{size_bytes} bytes</>
}

/** Encodes text as the Base64 of its UTF-8 bytes. */
function encoded(text: string): string {
  let bytes = ''
  for (const byte of new TextEncoder().encode(text)) bytes += String.fromCharCode(byte)
  return btoa(bytes)
}

/** Decodes Base64; undefined if the content is not UTF-8 text. */
function decoded(content: string): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(atob(content), one => one.charCodeAt(0)))
  } catch {
    return undefined
  }
}

function SetFile({ app_name, file }: { readonly app_name: string; readonly file?: AppFile }) {
  return (
    <FormDialog
      wide
      title={file ? `Change ${file.path}` : 'Add a file'}
      submit="Save"
      trigger={open =>
        file ? (
          <Button look="quiet" size="small" onClick={open} aria-label={`Change ${file.path}`}>
            Change
          </Button>
        ) : (
          <AddButton text="Add file" onClick={open} />
        )
      }
      send={async values => {
        const variable = values.text('variable')
        const given = variable === '' ? { content: encoded(values.text('content')) } : { variable }
        const body: PutAppFileRequest = {
          path: file?.path ?? values.text('path'),
          mode: values.text('mode'),
          ...given,
          secret: values.checked('secret'),
        }
        await api.putAppFile({ app_name, body })
        await refreshAll('app-files')
      }}
      fields={<Fields app_name={app_name} {...(file ? { file } : {})} />}
    />
  )
}

function Fields({ app_name, file }: { readonly app_name: string; readonly file?: AppFile }) {
  const isReadable = file !== undefined && !file.secret
  const now = useQuery({
    queryKey: ['app-file-content', app_name, file?.path],
    queryFn: ({ signal }) => api.getAppFileContent({ app_name, query: { path: file?.path ?? '' } }, { signal }),
    enabled: isReadable,
    gcTime: 0,
  })
  if (isReadable && now.isPending) return <p className="text-faint">Loading…</p>
  const text = decoded(now.data?.content ?? '')
  if (text === undefined) return <p>This file is not text. Change it with the command line: mote app-files set</p>
  return (
    <>
      {!file && <NameField label="Path" name="path" maxLength={512} placeholder="/etc/web/web.conf" />}
      <TextArea label="Content" name="content" rows={10} spellCheck={false} defaultValue={text} />
      <Field
        label="Or the value of a variable"
        name="variable"
        mono
        defaultValue={file?.variable ?? ''}
        placeholder="TLS_KEY"
      />
      <Field
        label="Mode"
        name="mode"
        mono
        defaultValue={file?.mode ?? '0644'}
        hint="Octal digits. The program owns the file."
      />
      <Check label="Never show the content again" name="secret" defaultChecked={file?.secret ?? false} />
    </>
  )
}
