// What the program is asked (tools/serve/answer.h).

/** The program's own words, where it cannot answer. */
class Refusal extends Error {}

async function ask(question, asked, signal) {
  const response = await fetch(question, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(asked),
    signal, referrerPolicy: 'no-referrer',
  });
  if (response.ok) return response;
  throw new Refusal((await response.text()).replace(/^rnnc: error: /gm, '').trim());
}

const askJson = async (...question) => (await ask(...question)).json();

const uriOf = (name) => `file:///${name.split('/').map(encodeURIComponent).join('/')}`;

/**
 * Opens a text in a language server and asks it; an array of [method, parameters] in, an array of
 * results and what is wrong with the text out.
 */
async function askLanguage(name, text, requests, signal) {
  const uri = uriOf(name);
  const message = (method, params, id) => ({ jsonrpc: '2.0', method, params, ...id });
  const messages = [
    message('initialize', { capabilities: {} }, { id: 0 }),
    message('textDocument/didOpen', { textDocument: { uri, languageId: 'rnn', version: 1, text } }),
    ...requests.map(([method, params], at) => message(
        `textDocument/${method}`, { textDocument: { uri }, ...params }, { id: at + 1 })),
  ];
  const sent = await askJson('lsp', messages, signal);
  const published = sent.findLast(({ method, params }) => (
    method === 'textDocument/publishDiagnostics' && params.uri === uri));
  return {
    results: requests.map((_, at) => sent.find(({ id }) => id === at + 1)?.result ?? null),
    diagnostics: published?.params.diagnostics ?? [],
  };
}
