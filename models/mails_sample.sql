-- tables of the demo for SmolLM2-135M-Instruct (scripts/smollm2): texts that so small a model understands
CREATE TABLE mails (id int PRIMARY KEY, body text NOT NULL);
INSERT INTO mails VALUES
(1, 'My parcel never arrived and nobody answers my mails.'),
(2, 'Thank you for the quick help, the lamp works again!'),
(3, 'I was charged twice for the same order.'),
(4, 'The app crashes when I open the settings.'),
(5, 'I love the new headphones, the sound is fantastic.'),
(6, 'Your driver was rude and threw the box over the fence.'),
(7, 'The blender leaks and smells of smoke.'),
(8, 'Great shop, friendly people, I will be back.');
CREATE TYPE contact AS (name varchar(40), city varchar(40), phone varchar(20));
CREATE TABLE contacts (id int PRIMARY KEY, body text NOT NULL);
INSERT INTO contacts VALUES
(1, 'My name is Anna Schmidt, I live in Vienna and my phone number is 555-0199.'),
(2, 'I am Peter Jones from London, phone 555-1234.'),
(3, 'Tom Baker, Chicago. You can reach me at 555-3141.');
