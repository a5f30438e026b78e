import type { User } from '@mote/client'
import { api } from '../../api/client.ts'
import { ActionButton } from '../../ui/action.tsx'
import { Button } from '../../ui/button.tsx'
import { FormDialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/form.tsx'
import { Card } from '../../ui/layout.tsx'
import { toast } from '../../ui/toast.tsx'

/** The account's email address: its verification, and a form to change it. */
export function Email({ user }: { readonly user: User }) {
  return (
    <Card
      title="Email address"
      lead={user.email_verified ? 'Verified.' : 'Not verified yet. Open the link in the email that we sent.'}
    >
      <div className="flex flex-wrap items-center gap-3">
        <span className="flex-1 wrap-anywhere">{user.email}</span>
        {!user.email_verified && (
          <ActionButton done="Link sent" act={() => api.sendVerification()}>
            Send the link again
          </ActionButton>
        )}
        <FormDialog
          title="Change email address"
          lead="We send a link to the new address. The change takes effect when you open it."
          submit="Send link"
          trigger={open => <Button onClick={open}>Change</Button>}
          send={async values => {
            await api.changeEmail({ body: { email: values.text('email'), password: values.text('password') } })
            toast({ tone: 'good', title: 'Link sent to the new address' })
          }}
          fields={
            <>
              <Field label="New email" name="email" type="email" required autoFocus autoComplete="email" />
              <Field label="Password" name="password" type="password" required autoComplete="current-password" />
            </>
          }
        />
      </div>
    </Card>
  )
}
