-- The demo's table for search: 300 short texts on 30 subjects.
CREATE TABLE passages (
    id int PRIMARY KEY,
    subject text NOT NULL,
    body text NOT NULL,
    embedding real[]
);
COPY passages (id, subject, body) FROM stdin;
1	shipping	Orders placed before noon leave our warehouse the same day.
2	shipping	You can follow your parcel with the tracking number in the confirmation mail.
3	shipping	If nobody is at home, the driver leaves the package with a neighbour.
4	shipping	Delivery to the islands takes up to five working days.
5	shipping	A damaged box should be photographed before it is opened.
6	shipping	Express shipping costs nine euros and arrives the next morning.
7	shipping	We do not ship batteries by air because of safety rules.
8	shipping	The courier tries twice and then brings the parcel to a pickup point.
9	shipping	Large furniture is carried to the room of your choice by two people.
10	shipping	Customs duties outside the union are paid by the receiver.
11	returns	Unused goods can be sent back within thirty days for a full refund.
12	returns	Print the label from your account and stick it over the old address.
13	returns	The money is on your card about a week after the goods reach us.
14	returns	Opened software and earphones cannot be taken back for hygiene and licence reasons.
15	returns	If you lost the receipt, the order number is enough.
16	returns	An exchange for another size is free of charge.
17	returns	Sale items can be returned too, but only for store credit.
18	returns	Please put everything that came in the box back into it.
19	returns	A gift can be returned without the buyer finding out.
20	returns	We pick up washing machines and fridges for free if they are faulty.
21	payment	We accept cards, bank transfer and payment in three instalments.
22	payment	Your invoice is attached to the mail and also stored in your profile.
23	payment	A card that was declined is often just past its date.
24	payment	A voucher code is entered on the last page before you pay.
25	payment	We never ask for your banking password on the phone.
26	payment	Companies may pay by invoice within fourteen days.
27	payment	The amount is only reserved until the order is shipped.
28	payment	If you were charged twice, one of the two bookings disappears by itself in three days.
29	payment	Prices include value added tax.
30	payment	The subscription renews every month until you cancel it.
31	kitchen	Knead the dough for ten minutes until it is smooth and springs back.
32	kitchen	Rinse rice in cold water until the water stays clear.
33	kitchen	A pinch of salt makes chocolate taste sweeter.
34	kitchen	Let the roast rest before you cut it, or the juice runs out.
35	kitchen	Fresh basil goes into the sauce at the very end.
36	kitchen	Simmer lentils for half an hour and add the vinegar last.
37	kitchen	Egg whites only become stiff if no yolk gets into the bowl.
38	kitchen	Cast iron pans are wiped with oil and never washed with soap.
39	kitchen	A ripe avocado gives way a little when you press it.
40	kitchen	Stale bread can be turned into dumplings or croutons.
41	coffee	A medium grind suits the paper filter, a fine one the espresso machine.
42	coffee	Water just below boiling brings out less bitterness.
43	coffee	Descale the machine every two months or the pump will suffer.
44	coffee	Beans keep their aroma best in an airtight jar away from light.
45	coffee	The kettle holds one and a half litres and switches itself off.
46	coffee	Milk foams best when it is cold and fresh.
47	coffee	Cold brew steeps in the fridge overnight.
48	coffee	The steam wand must be wiped at once after each use.
49	coffee	A burr mill grinds more evenly than one with blades.
50	coffee	Light roasts are more sour, dark ones more bitter.
51	garden	Tomatoes want sun, warmth and water at the roots, not on the leaves.
52	garden	Prune roses in spring when the forsythia blooms.
53	garden	Slugs avoid coarse sand and copper tape around the beds.
54	garden	Compost needs air: turn the heap every few weeks.
55	garden	Tulip bulbs are planted in autumn, twice as deep as they are high.
56	garden	Lavender likes poor dry soil and plenty of light.
57	garden	Cut the lawn no shorter than four centimetres in a dry summer.
58	garden	Basil on the windowsill dies of too much water more often than of too little.
59	garden	Bees are fond of thyme, borage and clover.
60	garden	Potatoes should be earthed up so that the light does not turn them green.
61	health	A fever above thirty-nine degrees that lasts three days needs a doctor.
62	health	Drink plenty of water and rest when you have the flu.
63	health	A burn is cooled under running water for ten minutes.
64	health	Stretch your neck and shoulders when you sit at a desk all day.
65	health	Vaccination against tetanus is refreshed every ten years.
66	health	Sudden numbness on one side of the face may be a stroke: call an ambulance.
67	health	Children should sleep nine to eleven hours a night.
68	health	Press a clean cloth on a bleeding wound and raise the arm.
69	health	Too much screen time before bed makes it harder to fall asleep.
70	health	Hay fever is worst on dry and windy mornings.
71	fitness	Beginners should run slowly enough to be able to talk.
72	fitness	Squats train thighs, hips and back at the same time.
73	fitness	Muscles grow on rest days, not during the workout.
74	fitness	Warm up for five minutes before lifting weights.
75	fitness	Swimming is gentle on the knees and strengthens the back.
76	fitness	Two litres of water are hardly enough on a long bike ride.
77	fitness	Yoga improves balance and calms the breath.
78	fitness	Buy running shoes in the evening, when your feet are a little larger.
79	fitness	A sore muscle recovers faster with light movement.
80	fitness	Skipping rope burns as many calories as jogging.
81	travel	The night train to Vienna has couchettes and a dining car.
82	travel	A visa on arrival costs thirty dollars and is paid in cash.
83	travel	Book the ferry early in August, it is often sold out.
84	travel	The old town is best explored on foot in the early morning.
85	travel	Liquids in hand luggage must be in bottles of at most a hundred millilitres.
86	travel	From the airport a bus leaves for the centre every twenty minutes.
87	travel	The mountain hut is open from June to September.
88	travel	Left luggage lockers are behind platform three.
89	travel	A rail pass pays off from the third long trip on.
90	travel	The beach in the north is quieter but has no shade.
91	hotels	Check-in begins at three, the room is yours until eleven the next day.
92	hotels	Breakfast with homemade bread is served on the terrace.
93	hotels	Dogs are welcome for a small fee.
94	hotels	All rooms have been soundproofed and face the courtyard.
95	hotels	The pool on the roof is heated even in winter.
96	hotels	Cancel free of charge up to two days before arrival.
97	hotels	The key card also opens the garage.
98	hotels	An extra bed for a child costs nothing.
99	hotels	The wireless network is fast enough for video calls.
100	hotels	Ask the front desk for a late check-out.
101	weather	A cold front brings showers and gusts in the afternoon.
102	weather	Fog in the valleys will lift by noon.
103	weather	The heat wave lasts until Thursday, with nights above twenty degrees.
104	weather	Black ice is expected on bridges before sunrise.
105	weather	The first snow of the year fell on the hills last night.
106	weather	Thunderstorms with hail move in from the west.
107	weather	A high over Scandinavia keeps the sky clear.
108	weather	The river has risen two metres after days of rain.
109	weather	The drought is the worst for forty years.
110	weather	At full moon the tide rises higher than usual.
111	astronomy	Jupiter has more than ninety known moons.
112	astronomy	The light of the nearest star travels four years to reach us.
113	astronomy	A solar eclipse happens when the moon stands exactly before the sun.
114	astronomy	Saturn's rings consist of ice and rock.
115	astronomy	Black holes bend the light that passes near them.
116	astronomy	A comet's tail always points away from the sun.
117	astronomy	The space telescope sees galaxies that formed soon after the big bang.
118	astronomy	On Mars a day lasts forty minutes longer than here.
119	astronomy	Meteor showers are best seen after midnight, far from the city.
120	astronomy	Venus turns backwards, so the sun rises there in the west.
121	physics	Ice floats because water expands when it freezes.
122	physics	Sound travels faster in steel than in air.
123	physics	A lever lets a small force lift a heavy load.
124	physics	Nothing with mass can move as fast as light.
125	physics	Opposite charges attract each other.
126	physics	A prism splits white light into its colours.
127	physics	Heat flows from the warm body to the cold one, never by itself the other way.
128	physics	The pendulum's period depends on its length, not on its weight.
129	physics	Superconductors carry current without loss at very low temperatures.
130	physics	Half of the atoms have decayed after one half-life.
131	biology	Plants turn sunlight, water and carbon dioxide into sugar.
132	biology	Bats find their prey by the echo of their calls.
133	biology	The octopus has three hearts and blue blood.
134	biology	Mitochondria are the power stations of the cell.
135	biology	Salmon return to the river where they were born.
136	biology	A hummingbird can fly backwards.
137	biology	Coral bleaches when the sea becomes too warm.
138	biology	Ants mark their way with scent.
139	biology	Genes are copied with few errors, and some of the errors turn out useful.
140	biology	Mushrooms are more closely related to animals than to plants.
141	history	The printing press spread through Europe within fifty years.
142	history	The wall that divided the city fell in November 1989.
143	history	Roman roads were straight and paved with stone.
144	history	The Black Death killed a third of the continent's people.
145	history	Women won the right to vote here in 1918.
146	history	The treaty that ended thirty years of war was signed in Westphalia.
147	history	Explorers searched for a sea route to the spices of India.
148	history	The pyramids are older than the wheel in that country.
149	history	The steam engine changed how cloth was made.
150	history	Vikings sailed to North America five centuries before Columbus.
151	music	A string quartet has two violins, a viola and a cello.
152	music	Tune the guitar from the lowest string to the highest.
153	music	The symphony ends with a chorus on a poem of joy.
154	music	Jazz musicians improvise over the chords of a song.
155	music	A metronome helps you to practise slowly and evenly.
156	music	The opera was booed at its first night and is loved today.
157	music	Vinyl records must be kept upright and free of dust.
158	music	The singer lost her voice and the concert was put off.
159	music	A waltz has three beats in a bar.
160	music	The piano should be tuned once a year.
161	film	The director shot the whole film in one take.
162	film	Silent comedies live on timing and gesture.
163	film	The sequel earned more at the box office than the first part.
164	film	Subtitles keep the actors' real voices.
165	film	A documentary about the deep sea won the festival's prize.
166	film	The detective finds the murderer because of a muddy shoe.
167	film	Animated films take years, a few seconds are drawn a day.
168	film	The villain's mask was made of leather and wax.
169	film	The scene on the staircase has been quoted a hundred times.
170	film	Children under twelve may watch it with their parents.
171	books	The novel follows one family through four generations.
172	books	A library card for a year costs ten euros, for students nothing.
173	books	The poet wrote about autumn, exile and bread.
174	books	The thriller begins with a body in the harbour.
175	books	Second-hand bookshops often buy whole collections.
176	books	The translation is lively and true to the original.
177	books	The diary was found in an attic sixty years later.
178	books	A short story has no room for a second plot.
179	books	The dictionary lists words that nobody uses any more.
180	books	Read the recipe to the end before you begin, says the first page of the cookbook.
181	football	The goalkeeper saved a penalty in the last minute.
182	football	Our team was relegated after losing nine matches in a row.
183	football	The referee showed a red card for the foul from behind.
184	football	The striker scored three goals before half-time.
185	football	Fans waited all night for tickets to the final.
186	football	The coach changed the line-up after the injury.
187	football	An own goal decided the derby.
188	football	Offside was given after a look at the video.
189	football	The transfer cost the club eighty million.
190	football	The youth team trains on Tuesdays and Fridays.
191	chess	White moves first, and that is a small advantage.
192	chess	A knight on the rim is dim, says an old rule.
193	chess	Castling brings the king to safety and the rook into play.
194	chess	A pawn that reaches the last rank becomes a queen.
195	chess	The champion offered a draw after five hours.
196	chess	Learn a few endings before you learn openings.
197	chess	The bishop moves along the diagonals only.
198	chess	In blitz each player has five minutes for the whole game.
199	chess	Computers have beaten the best humans since the nineties.
200	chess	A pinned piece must not move because the king stands behind it.
201	finance	Spread your savings over many shares instead of a few.
202	finance	The central bank raised interest rates by half a point.
203	finance	A fixed-rate mortgage keeps the payment the same for ten years.
204	finance	Inflation eats up money that lies in a drawer.
205	finance	The startup was sold before it had made any profit.
206	finance	Index funds cost less than funds with a manager.
207	finance	Keep three months of expenses for emergencies.
208	finance	The euro fell against the dollar after the election.
209	finance	Shareholders receive a dividend of two euros a share.
210	finance	A loan with a low rate can have high fees.
211	law	The tenant may reduce the rent while the heating does not work.
212	law	A contract can be made by word of mouth, but it is hard to prove.
213	law	Employees must be given notice in writing.
214	law	The court ruled that the photograph may not be used without consent.
215	law	You may record a call only if the other side agrees.
216	law	A will that was written by hand needs a date and a signature.
217	law	Minors cannot sign a mobile phone contract.
218	law	The patent expired after twenty years.
219	law	The witness may refuse to testify against her brother.
220	law	The speeding fine must be paid within two weeks.
221	work	The meeting was moved to Monday because half of the team is ill.
222	work	Holidays have to be requested four weeks in advance.
223	work	New colleagues get a laptop and a mentor on the first day.
224	work	Overtime is paid out or taken as free time.
225	work	She works from home on Wednesdays and Thursdays.
226	work	The canteen offers a vegetarian dish every day.
227	work	Applicants should send a letter and their certificates.
228	work	The union asks for five per cent more wages.
229	work	A short walk after lunch helps against the afternoon slump.
230	work	Please book a desk before you come to the office.
231	school	Homework is collected at the beginning of the lesson.
232	school	The pupils built a bridge of paper that carries a brick.
233	school	Reading aloud every evening helps children to learn to read.
234	school	The exam lasts two hours, dictionaries are allowed.
235	school	The class trip goes to the sea this year.
236	school	Fractions are easier to understand with a pizza.
237	school	A scholarship pays for tuition and rent.
238	school	The lecture is recorded and can be watched later.
239	school	Parents meet the teachers twice a year.
240	school	Whoever misses the deadline loses ten points.
241	databases	An index makes looking up a row fast and writing it a little slower.
242	databases	A transaction is applied as a whole or not at all.
243	databases	Old row versions are removed by vacuum.
244	databases	The replica follows the primary server with a delay of some milliseconds.
245	databases	A backup that was never restored is only a hope.
246	databases	A foreign key keeps orders from pointing to customers who do not exist.
247	databases	The query was slow because it read the whole table.
248	databases	Two sessions that wait for each other's locks are a deadlock.
249	databases	Partition the table by month and drop old months at once.
250	databases	Write-ahead logging lets the server recover after a crash.
251	programming	Name a function after what it returns, not after how it works.
252	programming	The program crashed because it read behind the end of the array.
253	programming	A unit test should fail for one reason only.
254	programming	Recursion needs a case that ends it.
255	programming	Version control shows who changed a line and why.
256	programming	The memory leak grew by a megabyte an hour.
257	programming	Read the error message to its end before you search for it.
258	programming	Code is read more often than it is written.
259	programming	Two threads wrote to the same variable without a lock.
260	programming	The compiler warns about a variable that is never used.
261	networks	Restart the router when the connection drops.
262	networks	The wireless signal is weak behind two concrete walls.
263	networks	A firewall blocks connections that nobody asked for.
264	networks	Use a long password and a second factor for your mail account.
265	networks	The certificate of the site has expired since yesterday.
266	networks	Fibre brings a gigabit per second into the house.
267	networks	Phishing mails often threaten to close your account.
268	networks	A virtual private network hides your address from the sites you visit.
269	networks	The domain name is turned into a number before the page loads.
270	networks	The camera could be reached from outside because nobody had changed the default password.
271	cars	The brake pads are worn out and squeal.
272	cars	Winter tyres are mandatory when there is snow on the road.
273	cars	Charging the battery to eighty per cent takes half an hour.
274	cars	The engine light came on after refuelling.
275	cars	Check the oil when the car is cold and level.
276	cars	The hybrid uses four litres in town.
277	cars	A dead battery can be jump-started with cables.
278	cars	The gearbox makes a noise in third gear.
279	cars	Child seats belong on the back seat.
280	cars	The inspection is due in March.
281	home	The washing machine shakes because it does not stand level.
282	home	Open the windows wide twice a day against mould.
283	home	A dripping tap wastes a bathtub of water a week.
284	home	The fuse blows when oven and kettle run together.
285	home	Paint the ceiling first and the walls afterwards.
286	home	The radiator stays cold at the top: it must be bled.
287	home	Wooden floors are wiped with a damp cloth, not a wet one.
288	home	The smoke alarm beeps when its battery is low.
289	home	Wall plugs of eight millimetres hold the heavy shelf.
290	home	A vacuum robot needs thresholds below two centimetres.
291	animals	Cats sleep up to sixteen hours a day.
292	animals	A puppy should not be left alone for longer than two hours.
293	animals	The rabbit needs hay all day and little dry food.
294	animals	Parrots become ill when they live alone.
295	animals	The horse is lame on its left foreleg.
296	animals	Chocolate is poisonous for dogs.
297	animals	Feed the aquarium fish once a day, and only a little.
298	animals	The hedgehog goes to sleep when the frost comes.
299	animals	The vet trims the claws and looks at the teeth.
300	animals	A lost dog is found faster if it has a chip.
\.
